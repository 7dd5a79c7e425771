package preflight

import (
	"fmt"
	"slices"

	"kube-vmap/cmd/components"
	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/kernel/kubeproxy"
)

// mark finds rules of other programs that change the bit of the packet mark by which masquerade
// is requested. That matters only on kernels without labels of connections.
func (n *node) mark() Item {
	const name = "packet mark"
	return n.rules(name, func(r *dump.Reader) (Item, error) {
		changed, err := n.chainsThatMark(r, masqueradeBit)
		bit := fmt.Sprintf("%#x", masqueradeBit)
		switch {
		case len(changed) == 0:
			return fine(name, "no rule of others changes "+bit), err
		case n.noLabels:
			return needs(name, "without connection labels, choose another bit (nftables.masqueradeBit) than "+bit, changed...), err
		}
		detail := "rules change " + bit + "; connection labels make masquerade independent of it"
		return Item{Name: name, Verdict: components.Fine, Detail: detail, Evidence: changed}, err
	})
}

// chainsThatMark returns the chains of other programs with a rule that changes the bit.
func (n *node) chainsThatMark(r *dump.Reader, bit uint32) (changed []string, err error) {
	for i := range n.Tables {
		t := &n.Tables[i]
		if t.Legacy || t.Dormant || t.IsOurs() || t.Name == components.KubeProxy {
			continue
		}
		for _, c := range t.Chains {
			if kubeproxy.IsChain(t.Name, c.Name) {
				continue
			}
			rules, err := r.Rules(t.Chain(c.Name))
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(rules, func(rule dump.Rule) bool { return rule.MarkBits()&bit != 0 }) {
				changed = append(changed, fmt.Sprintf("chain %s of table %s", c.Name, t))
			}
		}
	}
	return changed, nil
}
