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

// hookPriority is when a packet meets the chain.
func (b BaseChain) hookPriority() int32 {
	switch {
	case b.Type != natType:
		return b.Priority
	case b.Hook.isSourceNAT():
		return sourceNATPriority
	}
	return destinationNATPriority
}

const natType = "nat"

// orderBaseChains puts base chains into the order in which packets pass them. Of two with the
// same priority, the one that came later is first (nf_hook_entries_grow).
func orderBaseChains(list []BaseChain) map[Hook][]BaseChain {
	late := slices.Clone(list)
	slices.Reverse(late)
	slices.SortStableFunc(late, func(a, b BaseChain) int {
		return cmp.Or(cmp.Compare(a.hookPriority(), b.hookPriority()), cmp.Compare(a.natRank(), b.natRank()), cmp.Compare(a.Priority, b.Priority))
	})
	out := map[Hook][]BaseChain{}
	for _, b := range late {
		out[b.Hook] = append(out[b.Hook], b)
	}
	return out
}

// natRank is 1 for chains of nat, which stand together.
func (b BaseChain) natRank() int {
	if b.Type == natType {
		return 1
	}
	return 0
}
