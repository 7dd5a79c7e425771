package simulate

import (
	"net/netip"
	"time"

	"kube-vmap/nft/simulate/xt"
)

// matchRecent is recent_mt of net/netfilter/xt_recent.c. For a client of a [Session], lists are
// empty before.
func (w *walk) matchRecent(e xt.Recent) (bool, error) {
	a := w.frame.source().Addr()
	if e.Destination {
		a = w.frame.destination().Addr()
	}
	a = masked(a, e.Mask)
	at := elementKey{Table{Family: "xt_recent"}, e.Name, a.String()}
	timeout := elementKey{Table{Family: "xt_recent seconds"}, e.Name, ""}
	if e.Set {
		if t := w.addedElements[timeout]; t != nil {
			w.record.remembered = max(w.record.remembered, t.Expires)
		}
		w.addedElements[at] = &Element{}
		return !e.Invert, nil
	}
	if w.brief {
		w.addedElements[timeout] = &Element{Expires: time.Duration(e.Seconds) * time.Second}
	}
	ages, err := w.recentAges(e.Name, a, at)
	switch {
	case err != nil:
		return false, err
	case ages == nil:
		return e.Invert, nil
	case e.Remove:
		w.addedElements[at] = nil
		return !e.Invert, nil
	case e.TTL:
		return false, undecidedError(matchPrefix + "recent with a TTL, list " + e.Name)
	}
	found, err := matchAges(e, ages)
	return found != e.Invert, err
}

// recentAges returns the times since a list was given the address; none if it does not have it.
func (w *walk) recentAges(list string, a netip.Addr, at elementKey) ([]time.Duration, error) {
	var now []time.Duration
	switch added, changed := w.addedElements[at]; {
	case changed && added == nil:
		return nil, nil
	case changed:
		now = []time.Duration{0}
	}
	if w.brief {
		return now, nil
	}
	if w.Node == nil {
		return nil, undecidedError(matchPrefix + "recent, list " + list)
	}
	before, err := w.Node.RecentAges(list, a)
	return append(now, before...), err
}

// ageAccuracy is how exactly the age of an entry is known: the kernel counts in ticks.
const ageAccuracy = 2 * time.Second

// matchAges reports whether the address was seen as often as the match requires.
func matchAges(e xt.Recent, ages []time.Duration) (bool, error) {
	limit := time.Duration(e.Seconds) * time.Second
	sure, possible := uint32(0), uint32(0)
	for _, age := range ages {
		if limit == 0 || age < limit-ageAccuracy || age == 0 {
			sure++
		}
		if limit == 0 || age < limit+ageAccuracy {
			possible++
		}
	}
	needed := max(e.Hits, 1)
	if sure < needed && possible >= needed {
		return false, undecidedError(matchPrefix + "recent, list " + e.Name + ", which is about to forget the client")
	}
	return sure >= needed, nil
}

// masked returns an address without the bits that a mask does not have.
func masked(a, mask netip.Addr) netip.Addr {
	if !mask.IsValid() {
		return a
	}
	b := a.AsSlice()
	for i, m := range mask.AsSlice()[:len(b)] {
		b[i] &= m
	}
	a, _ = netip.AddrFromSlice(b)
	return a
}
