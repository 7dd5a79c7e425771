package simulate

import (
	"cmp"
	"slices"
)

// Priorities of the hooks that run all nat chains, whatever their own priorities, which
// only order them among each other (net/netfilter/nf_nat_proto.c).
const (
	destinationNATPriority = -100
	sourceNATPriority      = 100
)

func (b BaseChain) hookPriority() int32 {
	if b.Type != natType {
		return b.Priority
	}
	return b.Hook.natPriority()
}

const natType = "nat"

func (h Hook) translates() bool { return h != HookIngress && h != HookForward }

func (h Hook) natPriority() int32 {
	if h.isSourceNAT() {
		return sourceNATPriority
	}
	return destinationNATPriority
}

// orderBaseChains returns base chains by hook, in the order in which packets pass them. Of
// two with the same priority, the one added later is first (nf_hook_entries_grow).
func orderBaseChains(list []BaseChain) map[Hook][]BaseChain {
	late := slices.Clone(list)
	slices.Reverse(late)
	slices.SortStableFunc(late, func(a, b BaseChain) int {
		return cmp.Or(cmp.Compare(a.hookPriority(), b.hookPriority()), cmp.Compare(a.natRank(), b.natRank()),
			cmp.Compare(a.Priority, b.Priority))
	})
	out := map[Hook][]BaseChain{}
	for _, b := range late {
		out[b.Hook] = append(out[b.Hook], b)
	}
	return out
}

func (b BaseChain) natRank() int {
	if b.Type == natType {
		return 1
	}
	return 0
}
