package model

import (
	"cmp"
	"net/netip"
	"slices"
)

// places are slices, and where candidates are in them.
type places []EndpointSlice

// endpoint is what the candidate stands for.
func (p places) endpoint(c candidate) *Endpoint { return &p[c.slice].Endpoints[c.index] }

// addr is where the candidate serves.
func (p places) addr(c candidate) netip.AddrPort {
	return netip.AddrPortFrom(p.endpoint(c).Addr, c.number)
}

// compare orders candidates by address and number, those of one so that the one
// to believe comes first.
func (p places) compare(a, b candidate) int {
	if c := p.addr(a).Compare(p.addr(b)); c != 0 {
		return c
	}
	return p.compareTwins(a, b)
}

// compareTwins orders candidates of one address and number. Their places come
// last: they make no difference to anybody, but each is found where it is.
func (p places) compareTwins(a, b candidate) int {
	return cmp.Or(
		compareDuplicates(p.endpoint(a), p.endpoint(b)),
		cmp.Compare(a.slice, b.slice),
		cmp.Compare(a.index, b.index),
	)
}

// find tells where in the sorted candidates the first at the address is, or
// belongs.
func (p places) find(all []candidate, at netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(all, at, func(c candidate, at netip.AddrPort) int { return p.addr(c).Compare(at) })
}

// traitsAt are those of who counts at the address; none if nobody is there.
func (p places) traitsAt(all []candidate, at netip.AddrPort) traits {
	if i, found := p.find(all, at); found {
		return all[i].traits
	}
	return 0
}

// settle gives the traits to the one at the address who counts, and says which
// they are.
func (p places) settle(all []candidate, at netip.AddrPort, n *Node) traits {
	i, found := p.find(all, at)
	if !found {
		return 0
	}
	all[i].traits = n.traitsOf(p.endpoint(all[i]))
	for k := i + 1; k < len(all) && p.addr(all[k]) == at; k++ {
		all[k].traits = 0
	}
	return all[i].traits
}

// strike removes those who are gone, sorted, in place.
func (p places) strike(all, gone []candidate) []candidate {
	from, to := 0, 0
	for _, c := range gone {
		n, _ := slices.BinarySearchFunc(all[from:], c, p.compare)
		to += copy(all[to:], all[from:from+n])
		from += n + 1
	}
	to += copy(all[to:], all[from:])
	return all[:to]
}

// enter adds those who are fresh, sorted, in place if there is room. It starts
// from the end, so that everybody moves once.
func (p places) enter(all, fresh []candidate) []candidate {
	end := len(all)
	all = slices.Grow(all, len(fresh))[:end+len(fresh)]
	for i := len(fresh) - 1; i >= 0; i-- {
		at, _ := slices.BinarySearchFunc(all[:end], fresh[i], p.compare)
		copy(all[at+i+1:], all[at:end])
		all[at+i] = fresh[i]
		end = at
	}
	return all
}
