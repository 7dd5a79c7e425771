package simulate

import (
	"cmp"
	"slices"
)

// Where the kernel hooks in what serves all chains of nat, whatever their own
// priorities, which order them among each other (net/netfilter/nf_nat_proto.c).
const (
	destinationNATPriority = -100
	sourceNATPriority      = 100
)

// priority is when a packet meets the chain.
func (b Base) priority() int32 {
	switch {
	case b.Type != natType:
		return b.Priority
	case b.Hook.translatesSource():
		return sourceNATPriority
	}
	return destinationNATPriority
}

const natType = "nat"

// inOrder puts base chains into the order in which packets pass them. Of two with the
// same priority, the one that came later is first (nf_hook_entries_grow).
func inOrder(list []Base) map[Hook][]Base {
	late := slices.Clone(list)
	slices.Reverse(late)
	slices.SortStableFunc(late, func(a, b Base) int {
		return cmp.Or(cmp.Compare(a.priority(), b.priority()), cmp.Compare(a.nat(), b.nat()), cmp.Compare(a.Priority, b.Priority))
	})
	out := map[Hook][]Base{}
	for _, b := range late {
		out[b.Hook] = append(out[b.Hook], b)
	}
	return out
}

// nat is 1 for chains of nat, which stand together.
func (b Base) nat() int {
	if b.Type == natType {
		return 1
	}
	return 0
}
