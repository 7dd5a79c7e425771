package sync

import (
	"maps"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// halves divides a change into two, each of whole Services: what only goes first, and
// what belongs to no Service. False if there is nothing to divide. at is the Service
// that has a match now.
func halves(c nft.Change, at func(model.Match) model.ServiceName) (first, second nft.Change, divided bool) {
	if alone := (nft.Change{Set: c.Set}); len(c.Set) > 0 && (len(c.Gone) > 0 || c.ServiceCIDRs != nil || c.NodeAddrs != nil) {
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

// halve divides a list, near its middle, between the items of two Services; false if
// all are one Service's.
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

// postpone leaves a Service as it stands for which there is no memory, so that the
// others can go on. It returns the error if the change is not one of a Service.
func (l *Loop) postpone(c nft.Change, err error) error {
	if len(c.Set) == 0 {
		return err
	}
	name := c.Set[0].Service.ServiceName
	l.postponed[name] = struct{}{}
	l.log.Error("no memory for a change of a Service, which stays as it was", "service", name.String(), "err", err)
	l.recorder.Warn(l.service(name), ReasonRefused, "no memory for its change, which is tried again: "+err.Error())
	return nil
}

// withPostponed leaves out of the change what belongs to Services that are
// postponed, or adds all of theirs if it is time.
func (l *Loop) withPostponed(c nft.Change) nft.Change {
	if len(l.postponed) == 0 {
		return c
	}
	waits := func(name model.ServiceName) bool { _, found := l.postponed[name]; return found }
	c.Set = slices.DeleteFunc(slices.Clone(c.Set), func(f model.Frontend) bool { return waits(f.Service.ServiceName) })
	c.Gone = slices.DeleteFunc(slices.Clone(c.Gone), func(m model.Match) bool { return waits(l.rules.ServiceAt(m)) })
	if !l.postponedDue {
		return c
	}
	l.postponedDue = false
	names := slices.SortedFunc(maps.Keys(l.postponed), model.ServiceName.Compare)
	clear(l.postponed)
	for _, name := range names {
		all := l.state.services.FrontendsOf(name)
		c.Set = append(c.Set, all...)
	}
	set := make(map[model.Match]struct{}, len(c.Set))
	for i := range c.Set {
		set[c.Set[i].Match] = struct{}{}
	}
	for _, name := range names {
		for _, m := range l.rules.MatchesOf(name) {
			if _, stays := set[m]; !stays {
				c.Gone = append(c.Gone, m)
			}
		}
	}
	return c
}
