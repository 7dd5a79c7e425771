package model

import "net/netip"

// roll is everybody who makes one offer, and who was chosen of them.
type roll struct {
	offer
	all    []candidate // sorted
	tally  tally       // of all
	choice choice      // by which was chosen
	chosen selectedEndpoints
	asked  bool // since others were forgotten
}

// call makes the roll from nothing.
func (r *roll) call(p places, n *Node) {
	r.all, r.tally = p.candidates(r.offer, n), tally{}
	for i := range r.all {
		r.tally.add(r.all[i].traits)
	}
}

// choose makes all lists of the chosen, with those that flows may stay with if
// asked to.
func (r *roll) choose(p places, flows bool) {
	r.choice = r.tally.choice(flows)
	r.chosen = selectedEndpoints{
		Cluster: r.addresses(p, r.choice.cluster),
		Local:   r.addresses(p, r.choice.local),
		hasAny:  r.anywhere(),
		OnNode:  r.onNode(p),
	}
	r.chosen.Flows = r.flows(func() []netip.AddrPort { return r.addresses(p, isServing, isReady) })
}

// anywhere tells whether somebody could serve on some node.
func (r *roll) anywhere() bool { return r.tally.have(isReady) || r.tally.have(isServingTerminating) }

// flows are those that flows may stay with, if somebody wants to know. Whoever is
// in the list of the cluster is one of them, and most of the time nobody else is:
// then that list is also this one, and otherwise it must be made.
func (r *roll) flows(list func() []netip.AddrPort) []netip.AddrPort {
	switch {
	case !r.choice.flows:
		return nil
	case r.tally.count(isServing, isReady) == len(r.chosen.Cluster):
		return r.chosen.Cluster
	}
	return list()
}

// addresses lists the candidates that meet one of the wishes.
func (r *roll) addresses(p places, wishes ...traits) []netip.AddrPort {
	n := r.tally.count(wishes...)
	if n == 0 {
		return nil
	}
	out := make([]netip.AddrPort, 0, n)
	for _, c := range r.all {
		if c.traits.meets(wishes...) {
			out = append(out, p.addr(c))
		}
	}
	return out
}

// onNode lists the addresses without ports of the chosen that run on the node.
func (r *roll) onNode(p places) []netip.Addr {
	wishes := r.choice.onNode()
	var out []netip.Addr
	for _, c := range r.all {
		if !c.traits.meets(wishes...) {
			continue
		}
		if addr := p.endpoint(c).Addr; len(out) == 0 || out[len(out)-1] != addr {
			out = append(out, addr)
		}
	}
	return out
}
