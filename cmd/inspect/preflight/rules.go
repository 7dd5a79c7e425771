package preflight

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"kube-vmap/cmd/components"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/kernel/kubeproxy"
	"kube-vmap/nft/simulate"
)

// acceptors are the beginnings of the names of chains in which CNI plugins accept the traffic of
// pods. Package components has their origins.
var acceptors = []string{"cali-", "CILIUM_", "FLANNEL-FWD", "KUBE-ROUTER-", "CNI-FORWARD", "ANTREA-", "OVN-KUBE-"}

// chains returns the chains of tables that are in effect.
func (n *node) chains() iter.Seq2[*dump.Table, dump.Chain] {
	return func(yield func(*dump.Table, dump.Chain) bool) {
		for i := range n.Tables {
			for _, c := range n.Tables[i].Chains {
				if !n.Tables[i].Dormant && !yield(&n.Tables[i], c) {
					return
				}
			}
		}
	}
}

// rules calls check with a reader of rules, unless tables cannot be read.
func (n *node) rules(name string, check func(*dump.Reader) (Item, error)) Item {
	err := n.Blind()
	if err != nil {
		return unknown(name, err)
	}
	r, err := dump.Open(0)
	if err != nil {
		return unknown(name, err)
	}
	defer func() { _ = r.Close() }() // it was only read from
	item, err := check(r)
	if err != nil {
		return unknown(name, err)
	}
	return item
}

// policies checks chains whose policy is drop. kube-proxy's iptables and
// ipvs modes have rules that accept packets of Services; kube-vmap has none, as kube-proxy's
// nftables mode.
func (n *node) policies() []Item {
	return []Item{
		n.policy("forward", "a rule must accept the traffic of pods: kube-vmap, like kube-proxy in nftables mode, has none",
			"docs/compatibility.md#a-policy-of-drop-for-forwarded-packets"),
		n.policy("input", "a rule must accept packets to health check node ports, if load balancers check this node",
			"docs/runbook.md#before-a-node-moves"),
	}
}

// policy checks the chains at a hook of nf_tables. Policies of iptables-legacy are not known.
func (n *node) policy(hook, need, see string) Item {
	name := hook + " policy"
	return n.rules(name, func(r *dump.Reader) (Item, error) {
		var dropping, accepted []string
		for t, c := range n.chains() {
			if c.Hook != hook || !c.Drop {
				continue
			}
			dropping = append(dropping, fmt.Sprintf("policy drop in chain %s of table %s", c.Name, t))
			by, err := acceptedBy(r, t, c.Name)
			if err != nil {
				return Item{}, err
			}
			if by == "" {
				item := needs(name, need, dropping...)
				item.See = see
				return item, nil
			}
			accepted = append(accepted, by)
		}
		if i := slices.IndexFunc(n.Tables, func(t dump.Table) bool {
			return t.Legacy && t.Name == "filter" &&
				!t.Inert
		}); i >= 0 {
			return unknown(name, fmt.Errorf("rules of %s are not read: iptables-legacy-save shows them", &n.Tables[i])), nil
		}
		if len(dropping) == 0 {
			return fine(name, "accept"), nil
		}
		return fine(name, append(dropping, accepted...)...), nil
	})
}

// acceptedBy returns what in a chain may accept the traffic of pods: a rule that accepts, or
// a CNI plugin's chain.
func acceptedBy(r *dump.Reader, t *dump.Table, chain string) (string, error) {
	rules, err := r.Rules(t.Chain(chain))
	if err != nil {
		return "", err
	}
	for _, rule := range rules {
		if slices.ContainsFunc(acceptors, func(start string) bool { return strings.HasPrefix(rule.Jump(), start) }) {
			return "chain " + rule.Jump() + " accepts", nil
		}
	}
	if slices.ContainsFunc(rules, simulate.Rule.Accepts) {
		return "rules in it accept some packets", nil
	}
	return "", nil
}

// mark finds rules of other programs that change the bit of the packet mark by which masquerade
// is requested, the default one: preflight knows no configuration. That matters only on kernels
// without labels of connections.
func (n *node) mark() Item {
	const name, bit = "packet mark", nft.DefaultMasqueradeMark
	return n.rules(name, func(r *dump.Reader) (Item, error) {
		var changed []string
		for t, c := range n.chains() {
			if t.Legacy || t.IsOurs() || t.Name == components.KubeProxy || kubeproxy.IsChain(t.Name, c.Name) {
				continue
			}
			rules, err := r.Rules(t.Chain(c.Name))
			if err != nil {
				return Item{}, err
			}
			if slices.ContainsFunc(rules, func(r simulate.Rule) bool { return r.MarkBits()&bit != 0 }) {
				changed = append(changed, fmt.Sprintf("chain %s of table %s", c.Name, t))
			}
		}
		text := fmt.Sprintf("%#x", bit)
		switch {
		case len(changed) == 0:
			return fine(name, "no rule of others changes "+text), nil
		case n.noLabels:
			return needs(name, "without connection labels, choose another bit (nftables.masqueradeBit) than "+text,
				changed...), nil
		}
		return noted(name, "rules change "+text+"; connection labels make masquerade independent of it", changed...), nil
	})
}
