package model

import "math/bits"

// traits are what there is to know about a candidate on one node, a bit each.
type traits uint8

const (
	isReady traits = 1 << iota
	isServing
	isTerminating
	isLocal // runs on the node
	hintedForNode
	hintedForZone
	withoutNodeHint // for any node
	withoutZoneHint // for any zone

	isServingTerminating = isServing | isTerminating
)

// has tells whether all the wanted traits are there.
func (t traits) has(want traits) bool { return t&want == want }

// meets tells whether all traits of one of the wishes are there.
func (t traits) meets(wishes ...traits) bool {
	for _, want := range wishes {
		if t.has(want) {
			return true
		}
	}
	return false
}

// when is t if it holds, or else nothing.
func (t traits) when(holds bool) traits {
	if holds {
		return t
	}
	return 0
}

// traitsOf is what node n sees in the endpoint.
func (n *Node) traitsOf(e *Endpoint) traits {
	return isReady.when(e.Ready) |
		isServing.when(e.Serving) |
		isTerminating.when(e.Terminating) |
		isLocal.when(n.hosts(e)) |
		hintedForNode.when(e.NodeHints.Has(n.Name)) |
		hintedForZone.when(e.ZoneHints.Has(n.Zone)) |
		withoutNodeHint.when(e.NodeHints == "") |
		withoutZoneHint.when(e.ZoneHints == "")
}

// tally counts candidates by their traits, if they have any. There are few
// combinations, so that what some candidate has is found without a look at any.
type tally struct {
	counts  [1 << 8]uint32
	present [1 << 8 / 64]uint64 // a bit for each count above zero
}

func (t *tally) add(c traits) {
	if c == 0 {
		return
	}
	t.counts[c]++
	t.present[c/64] |= 1 << (c % 64)
}

func (t *tally) remove(c traits) {
	if c == 0 {
		return
	}
	if t.counts[c]--; t.counts[c] == 0 {
		t.present[c/64] &^= 1 << (c % 64)
	}
}

// each ranges over the combinations that there are.
func (t *tally) each(yield func(traits) bool) {
	for i, word := range t.present {
		for ; word != 0; word &= word - 1 {
			if !yield(traits(64*i + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}

// have tells whether some candidate has all the wanted traits.
func (t *tally) have(want traits) bool {
	for c := range t.each {
		if c.has(want) {
			return true
		}
	}
	return false
}

// count is how many candidates meet one of the wishes.
func (t *tally) count(wishes ...traits) int {
	n := 0
	for c := range t.each {
		if c.meets(wishes...) {
			n += int(t.counts[c])
		}
	}
	return n
}
