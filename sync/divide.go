package sync

import (
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// halves divides a change into two, each of whole Services. Parts without a Service, and
// deletions of Services without other changes, come first. It reports whether there was
// anything to divide. The function at returns the Service that has a match now.
func halves(c nft.Change, at func(model.Match) model.ServiceName) (first, second nft.Change, divided bool) {
	of := func(f model.Frontend) model.ServiceName { return f.Service.ServiceName }
	stays := map[model.ServiceName]bool{}
	for i := range c.Set {
		stays[of(c.Set[i])] = true
	}
	var alone, others []model.Match
	for _, m := range c.Removed {
		if stays[at(m)] {
			others = append(others, m)
		} else {
			alone = append(alone, m)
		}
	}
	c.Removed = alone
	if len(c.Set) > 0 && (len(alone) > 0 || c.ServiceCIDRs != nil || c.NodeAddrs != nil) {
		second = nft.Change{Set: c.Set, Removed: others}
		c.Set = nil
		return c, second, true
	}
	if len(c.Set) == 0 {
		c.Removed, second.Removed, divided = halve(alone, at)
		return c, second, divided
	}
	first.Set, second.Set, divided = halve(c.Set, of)
	for _, m := range others {
		if divided && at(m).Compare(of(second.Set[0])) >= 0 {
			second.Removed = append(second.Removed, m)
		} else {
			first.Removed = append(first.Removed, m)
		}
	}
	return first, second, divided
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
