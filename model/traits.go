package model

import "math/bits"

// traits are the properties of a candidate on one node, one bit each. All bits are in
// use: an additional one needs uint16, and larger arrays in [traitCounts].
type traits uint8

const (
	isReady traits = 1 << iota
	isServing
	isTerminating
	isLocal // runs on the node
	hintedForNode
	hintedForZone
	withoutNodeHint // of any node
	withoutZoneHint // of any zone

	// isServingTerminating are the traits of an endpoint that terminates but still
	// serves (KEP-1669).
	isServingTerminating = isServing | isTerminating
)

func (t traits) hasAll(want traits) bool { return t&want == want }

// hasAny reports whether all traits of one of the alternatives are present.
func (t traits) hasAny(alternatives ...traits) bool {
	for _, want := range alternatives {
		if t.hasAll(want) {
			return true
		}
	}
	return false
}

// onlyIf returns t if the condition holds, or else no traits.
func (t traits) onlyIf(condition bool) traits {
	if condition {
		return t
	}
	return 0
}

// traitsOf returns the traits of a slice's endpoint on the node. To a drained endpoint
// only established flows may go: like one that is not ready but serves.
func (n *Node) traitsOf(s *EndpointSlice, e *Endpoint) traits {
	if s.Drained {
		return (isServing | isLocal.onlyIf(n.hosts(e))).onlyIf(e.Ready || e.Serving)
	}
	return isReady.onlyIf(e.Ready) |
		isServing.onlyIf(e.Serving) |
		isTerminating.onlyIf(e.Terminating) |
		isLocal.onlyIf(n.hosts(e)) |
		hintedForNode.onlyIf(e.NodeHints.Has(n.Name)) |
		hintedForZone.onlyIf(e.ZoneHints.Has(n.Zone)) |
		withoutNodeHint.onlyIf(e.NodeHints == "") |
		withoutZoneHint.onlyIf(e.ZoneHints == "")
}

// traitCounts counts candidates by their traits, except for those without any. There are
// few combinations, so queries about all candidates need not look at each.
type traitCounts struct {
	counts  [1 << 8]uint32
	present [1 << 8 / 64]uint64 // a bit for each count above zero
}

func (t *traitCounts) add(c traits) {
	if c == 0 {
		return
	}
	t.counts[c]++
	t.present[c/64] |= 1 << (c % 64)
}

func (t *traitCounts) remove(c traits) {
	if c == 0 {
		return
	}
	if t.counts[c]--; t.counts[c] == 0 {
		t.present[c/64] &^= 1 << (c % 64)
	}
}

// all ranges over the combinations that occur.
func (t *traitCounts) all(yield func(traits) bool) {
	for i, word := range t.present {
		for ; word != 0; word &= word - 1 {
			if !yield(traits(64*i + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}

// anyHas reports whether some candidate has all the traits in want.
func (t *traitCounts) anyHas(want traits) bool {
	for c := range t.all {
		if c.hasAll(want) {
			return true
		}
	}
	return false
}

// count returns how many candidates have one of the alternatives.
func (t *traitCounts) count(alternatives ...traits) int {
	n := 0
	for c := range t.all {
		if c.hasAny(alternatives...) {
			n += int(t.counts[c])
		}
	}
	return n
}
