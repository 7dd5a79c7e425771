package model

import "net/netip"

// endpointIndex keeps the candidates for one port and the lists selected from them.
// It holds positions in endpointSlices, which its methods take as an argument.
type endpointIndex struct {
	portKey
	candidates []candidate // sorted
	counts     traitCounts // of candidates
	criteria   criteria    // that lists were selected by
	lists      endpointLists
	used       bool // since the last dropUnused
}

// rebuild collects the candidates from scratch.
func (x *endpointIndex) rebuild(s endpointSlices, n *Node) {
	x.candidates, x.counts = s.candidates(x.portKey, n), traitCounts{}
	for i := range x.candidates {
		x.counts.add(x.candidates[i].traits)
	}
}

// rebuildLists selects all lists from the candidates.
func (x *endpointIndex) rebuildLists(s endpointSlices, n needs) {
	x.criteria = x.counts.criteria(n)
	x.lists = endpointLists{
		cluster:   x.matching(s, x.criteria.cluster),
		local:     x.matching(s, x.criteria.local),
		anyUsable: x.counts.anyUsable(n),
		hairpin:   x.hairpin(s),
	}
	x.lists.flows = x.flows(func() []netip.AddrPort { return x.matching(s, isServing, isReady) })
	x.weigh(s)
}

// weigh lists the weights for the lists of a Service that has different ones. It looks at
// all candidates, which costs less than the copies of the lists.
func (x *endpointIndex) weigh(s endpointSlices) {
	x.lists.clusterWeights, x.lists.localWeights = nil, nil
	if s.weighted() {
		x.lists.clusterWeights = x.weights(s, len(x.lists.cluster), x.criteria.cluster)
		x.lists.localWeights = x.weights(s, len(x.lists.local), x.criteria.local)
	}
}

// weights lists the weights of the n candidates that have the traits; nil if all are
// equal.
func (x *endpointIndex) weights(s endpointSlices, n int, want traits) []uint16 {
	out, differ := make([]uint16, 0, n), false
	for _, c := range x.candidates {
		if c.traits.hasAll(want) {
			out = append(out, s[c.slice].weight())
			differ = differ || out[0] != out[len(out)-1]
		}
	}
	if !differ {
		return nil
	}
	return out
}

// flows returns the list for flows, if needed. It includes the cluster list and mostly
// equals it; then they share memory, and otherwise list makes it.
func (x *endpointIndex) flows(list func() []netip.AddrPort) []netip.AddrPort {
	switch {
	case !x.criteria.needs.flows:
		return nil
	case x.counts.count(isServing, isReady) == len(x.lists.cluster):
		return x.lists.cluster
	}
	return list()
}

// matching lists the candidates that have one of the alternatives.
func (x *endpointIndex) matching(s endpointSlices, alternatives ...traits) []netip.AddrPort {
	n := x.counts.count(alternatives...)
	if n == 0 {
		return nil
	}
	out := make([]netip.AddrPort, 0, n)
	for _, c := range x.candidates {
		if c.traits.hasAny(alternatives...) {
			out = append(out, s.addrPort(c))
		}
	}
	return out
}

// hairpin lists the addresses of the selected candidates that run on the node.
func (x *endpointIndex) hairpin(s endpointSlices) []netip.Addr {
	alternatives := x.criteria.hairpin()
	var out []netip.Addr
	for _, c := range x.candidates {
		if !c.traits.hasAny(alternatives...) {
			continue
		}
		if addr := s.endpoint(c).Addr; len(out) == 0 || out[len(out)-1] != addr {
			out = append(out, addr)
		}
	}
	return out
}
