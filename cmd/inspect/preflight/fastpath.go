package preflight

import (
	"cmp"

	"kube-vmap/cmd/components"
	"kube-vmap/nft/kernel/flowtable"
)

// fastPath says whether --fast-path would have an effect beside what is on the node. Whether
// the kernel has flowtables shows only when one is added.
func (n *node) fastPath() Item {
	list, err := flowtable.List(0)
	if err != nil {
		return unknown("fast path", err)
	}
	i := fine("fast path", "nothing is known against --fast-path")
	if reason := cmp.Or(flowtable.Foreign(list), components.FastPathObstacle(n.Node)); reason != "" {
		i = Item{Name: "fast path", Verdict: components.Fine, Detail: "--fast-path would stay off: " + reason}
	}
	i.See = "docs/usage.md#fast-path"
	return i
}
