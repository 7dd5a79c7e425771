package preflight

import (
	"fmt"
	"slices"
	"strings"

	"kube-vmap/nft/kernel/dump"
)

// acceptors are the beginnings of the names of chains in which CNI plugins accept the traffic of
// pods. Package components has their origins.
var acceptors = []string{"cali-", "CILIUM_", "FLANNEL-FWD", "KUBE-ROUTER-", "CNI-FORWARD", "ANTREA-", "OVN-KUBE-"}

// rules calls check with a reader of rules, unless tables cannot be read.
func (n *node) rules(name string, check func(*dump.Reader) (Item, error)) Item {
	err := n.blind()
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
		n.policy("forward", "a rule must accept the traffic of pods: kube-vmap, like kube-proxy in nftables mode, has none"),
		n.policy("input", "a rule must accept packets to health check node ports, if load balancers check this node"),
	}
}

// policy checks the chains at a hook of nf_tables. Policies of iptables-legacy are not known.
func (n *node) policy(hook, need string) Item {
	name := hook + " policy"
	return n.rules(name, func(r *dump.Reader) (Item, error) {
		var dropping, accepted []string
		for _, c := range n.dropping(hook) {
			dropping = append(dropping, fmt.Sprintf("policy drop in chain %s of table %s", c.name, c.table))
			by, err := acceptedBy(r, c)
			if err != nil {
				return Item{}, err
			}
			if by == "" {
				item := needs(name, need, dropping...)
				item.See = "deploy/README.md#from-kube-proxy-to-kube-vmap-node-by-node"
				return item, nil
			}
			accepted = append(accepted, by)
		}
		if i := slices.IndexFunc(n.Tables, func(t dump.Table) bool { return t.Legacy && t.Name == "filter" && !t.Inert }); i >= 0 {
			return unknown(name, fmt.Errorf("rules of %s are not read: iptables-legacy-save shows them", &n.Tables[i])), nil
		}
		if len(dropping) == 0 {
			return fine(name, "accept"), nil
		}
		return fine(name, append(dropping, accepted...)...), nil
	})
}

// A chain is a chain of a table.
type chain struct {
	table *dump.Table
	name  string
}

// dropping returns the chains at a hook whose policy is drop.
func (n *node) dropping(hook string) (chains []chain) {
	for i := range n.Tables {
		t := &n.Tables[i]
		for _, c := range t.Chains {
			if c.Hook == hook && c.Drop && !t.Dormant {
				chains = append(chains, chain{t, c.Name})
			}
		}
	}
	return chains
}

// acceptedBy returns what in a chain may accept the traffic of pods: a rule that accepts, or
// a CNI plugin's chain.
func acceptedBy(r *dump.Reader, c chain) (string, error) {
	rules, err := r.Rules(c.table.Chain(c.name))
	if err != nil {
		return "", err
	}
	for _, rule := range rules {
		if slices.ContainsFunc(acceptors, func(start string) bool { return strings.HasPrefix(rule.Jump(), start) }) {
			return "chain " + rule.Jump() + " accepts", nil
		}
	}
	if slices.ContainsFunc(rules, func(rule dump.Rule) bool { return rule.Accepts() }) {
		return "rules in it accept some packets", nil
	}
	return "", nil
}
