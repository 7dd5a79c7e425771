package preflight

import (
	"fmt"
	"slices"
	"strings"

	"kube-vmap/nft/kernel/survey"
)

// acceptors are chains by which CNI plugins accept the traffic of pods, as their names begin.
// Their origins are those of package components.
var acceptors = []string{"cali-", "CILIUM_", "FLANNEL-FWD", "KUBE-ROUTER-", "CNI-FORWARD", "ANTREA-", "OVN-KUBE-"}

// policies checks chains that drop what no rule decided on. kube-proxy's iptables and ipvs
// modes have rules that accept packets of Services; kube-vmap has none, as kube-proxy's
// nftables mode.
func (n *node) policies() []Item {
	return []Item{
		n.policy("forward", "a rule must accept the traffic of pods: kube-vmap, like kube-proxy in nftables mode, has none"),
		n.policy("input", "a rule must accept packets to health check node ports, if load balancers check this node"),
	}
}

// policy checks the chains at a hook, in both backends of iptables and in nf_tables.
func (n *node) policy(hook, need string) Item {
	name := hook + " policy"
	if err := n.blind(); err != nil {
		return unknown(name, err)
	}
	var dropping, accepted []string
	for i := range n.Tables {
		t := &n.Tables[i]
		for _, c := range t.Chains {
			if c.Hook != hook || !c.Drop || t.Dormant {
				continue
			}
			dropping = append(dropping, fmt.Sprintf("policy drop in chain %s of table %s", c.Name, t))
			by, err := acceptedBy(t, c.Name)
			if err != nil {
				return unknown(name, err)
			}
			if by == "" {
				item := needs(name, need, dropping...)
				item.See = "deploy/README.md#from-kube-proxy-to-kube-vmap-node-by-node"
				return item
			}
			accepted = append(accepted, by)
		}
	}
	if len(dropping) == 0 {
		return fine(name, "accept")
	}
	return fine(name, append(dropping, accepted...)...)
}

// acceptedBy returns what in a chain may accept the traffic of pods: a rule that accepts, or
// a CNI plugin's chain. The rules of iptables-legacy are not read.
func acceptedBy(t *survey.Table, chain string) (string, error) {
	if t.Legacy {
		return "", nil
	}
	rules, err := survey.Rules(0, t, chain)
	if err != nil {
		return "", err
	}
	for _, r := range rules {
		if slices.ContainsFunc(acceptors, func(start string) bool { return strings.HasPrefix(r.Chain, start) }) {
			return "chain " + r.Chain + " accepts", nil
		}
	}
	if slices.ContainsFunc(rules, func(r survey.Rule) bool { return r.Accepts }) {
		return "rules in it accept some packets", nil
	}
	return "", nil
}
