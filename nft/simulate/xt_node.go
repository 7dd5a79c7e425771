package simulate

import (
	"net/netip"
	"time"
)

// matchSet is set_match_v4 of net/netfilter/xt_set.c. The kernel has brought revision 0 to the
// form of later ones.
func (w *walk) matchSet(b info) (bool, error) {
	const invert, noMatch = 1, 1 << 7
	index, rest := b.u16(0), 2
	if b.revision == 0 {
		rest = 28
	}
	flags := b.u8(rest + 1)
	q := IPSetQuery{
		Index: index, Dimensions: b.u8(rest), FromSource: flags &^ (invert | noMatch),
		ReturnNoMatch: flags&noMatch != 0, Family: w.frame.family, Protocol: w.frame.protocol,
		Source: w.frame.source(), Destination: w.frame.destination(), In: w.frame.in.Name, Out: w.frame.out.Name,
		Mark: w.frame.mark,
	}
	if b.revision >= 3 {
		q.ReturnNoMatch = b.u32(40)&noMatch != 0
		packets, bytes := 8, 24 // how counters of the element are compared
		if b.revision > 3 {
			packets, bytes = 16, 32
		}
		if b.u8(packets) != 0 || b.u8(bytes) != 0 {
			return false, undecidedError("a match of counters in a set of ipset")
		}
	}
	switch {
	case w.changedIPSets:
		return false, undecidedError("a match of a set of ipset, behind a rule that changes one")
	case w.IPSets == nil:
		return false, undecidedError("a match of a set of ipset, which is not read")
	}
	found, err := w.ipsets.get(q, func() (bool, error) { return w.IPSets.Contains(q) })
	return found != (flags&invert != 0), err
}

// matchSocket is socket_match of net/netfilter/xt_socket.c.
func (w *walk) matchSocket(b info) (bool, error) {
	const transparent, noWildcard = 1, 2
	options := uint8(0)
	if b.revision > 0 {
		options = b.u8(0)
	}
	s, err := w.findSocket(w.frame.destination())
	return s.Found && (!s.Wildcard || options&noWildcard != 0) && (s.Transparent || options&transparent == 0), err
}

// Options of a match of recent: it adds the address to its list, or deletes it.
const recentSet, recentRemove = 2, 8

// matchRecent is recent_mt of net/netfilter/xt_recent.c. For a client of a [Session], lists are
// empty before. Revision 1 has a mask of the addresses in the list.
func (w *walk) matchRecent(b info) (bool, error) {
	const ttl, mask = 16, 212
	options, invert, name := b.u8(8), b.u8(9) != 0, b.text(10, 200)
	a := w.ends()[byteOf(b.u8(210) != 0)].Addr()
	if len(b.data) >= mask+addrLen {
		a = masked(a, b.addr(mask))
	}
	at := elementKey{Table{Family: "xt_recent"}, name, a.String()}
	timeout := elementKey{Table{Family: "xt_recent seconds"}, name, ""}
	if options&recentSet != 0 {
		if t := w.addedElements[timeout]; t != nil {
			w.record.remembered = max(w.record.remembered, t.Expires)
		}
		w.addedElements[at] = &Element{}
		return !invert, nil
	}
	limit := time.Duration(b.u32(0)) * time.Second
	if w.brief {
		w.addedElements[timeout] = &Element{Expires: limit}
	}
	ages, err := w.recentAges(name, a, at)
	switch {
	case err != nil:
		return false, err
	case ages == nil:
		return invert, nil
	case options&recentRemove != 0:
		w.addedElements[at] = nil
		return !invert, nil
	case options&ttl != 0:
		return false, undecidedError(matchPrefix + "recent with a TTL, list " + name)
	}
	sure, possible := countAges(ages, limit)
	hits := max(b.u32(4), 1)
	if sure < hits && possible >= hits {
		return false, undecidedError(matchPrefix + "recent, list " + name + ", which is about to forget the client")
	}
	return sure >= hits != invert, nil
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

// countAges returns how many ages are below the limit for sure, and possibly; zero is no limit.
func countAges(ages []time.Duration, limit time.Duration) (sure, possible uint32) {
	for _, age := range ages {
		if limit == 0 || age < limit-ageAccuracy || age == 0 {
			sure++
		}
		if limit == 0 || age < limit+ageAccuracy {
			possible++
		}
	}
	return sure, possible
}
