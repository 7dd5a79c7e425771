package sync

import (
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// halves divides a change into two, each of whole Services. Deletions, and what belongs
// to no Service, come first. It reports whether there was anything to divide. The
// function at returns the Service that has a match now.
func halves(c nft.Change, at func(model.Match) model.ServiceName) (first, second nft.Change, divided bool) {
	if alone := (nft.Change{Set: c.Set}); len(c.Set) > 0 &&
		(len(c.Gone) > 0 || c.ServiceCIDRs != nil || c.NodeAddrs != nil) {
		c.Set = nil
		return c, alone, true
	}
	if len(c.Set) == 0 {
		one, other, divided := halve(c.Gone, at)
		first, second = c, nft.Change{Gone: other}
		first.Gone = one
		return first, second, divided
	}
	one, other, divided := halve(c.Set, func(f model.Frontend) model.ServiceName { return f.Service.ServiceName })
	return nft.Change{Set: one}, nft.Change{Set: other}, divided
}

// halve divides a list between the items of two Services, as near to its middle as
// possible. It reports false if all are of one Service.
func halve[T any](list []T, of func(T) model.ServiceName) (one, other []T, divided bool) {
	byService := func(a, b T) int { return of(a).Compare(of(b)) }
	list = slices.SortedStableFunc(slices.Values(list), byService)
	for step := range list {
		// From the middle in both directions.
		middle := len(list)/2 + (step+1)/2
		if step%2 == 0 {
			middle = len(list)/2 - step/2
		}
		if middle > 0 && middle < len(list) && byService(list[middle-1], list[middle]) != 0 {
			return list[:middle], list[middle:], true
		}
	}
	return list, nil, false
}
