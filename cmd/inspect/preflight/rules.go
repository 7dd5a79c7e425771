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

// rules checks rules of other programs, unless tables cannot be read.
func (n *node) rules() {
	if n.unread = n.Blind(); n.unread == nil {
		n.reader, n.unread = dump.Open(0)
	}
	n.add(n.policy("forward",
		"a rule must accept the traffic of pods: kube-vmap, like kube-proxy in nftables mode, has none",
		"docs/compatibility.md#a-policy-of-drop-for-forwarded-packets"))
	n.add(n.policy("input",
		"a rule must accept packets to health check node ports, if load balancers check this node",
		"docs/runbook.md#before-a-node-moves"))
	n.add(n.mark())
	if n.unread == nil {
		_ = n.reader.Close() // it was only read from
	}
}

// policy checks the chains at a hook of nf_tables whose policy is drop. kube-proxy's iptables
// and ipvs modes have rules that accept packets of Services; kube-vmap has none, as kube-proxy's
// nftables mode. Policies of iptables-legacy are not known.
func (n *node) policy(hook, need, see string) (Item, error) {
	i := item(hook+" policy", "")
	if n.unread != nil {
		return i, n.unread
	}
	var accepted []string
	for t, c := range n.chains() {
		if string(c.Hook) != hook || !c.Drop {
			continue
		}
		i.Evidence = append(i.Evidence, fmt.Sprintf("policy drop in chain %s of table %s", c.Name, t))
		by, err := n.acceptedBy(t, c.Name)
		if err != nil {
			return i, err
		}
		if by == "" {
			i.See = see
			return i.needs(need), nil
		}
		accepted = append(accepted, by)
	}
	for k := range n.Tables {
		if t := &n.Tables[k]; t.Legacy && t.Name == "filter" && !t.Inert {
			return i, fmt.Errorf("rules of %s are not read: iptables-legacy-save shows them", t)
		}
	}
	if i.Evidence = append(i.Evidence, accepted...); len(i.Evidence) == 0 {
		i.Evidence = []string{"accept"}
	}
	return i, nil
}

// acceptedBy returns what in a chain may accept the traffic of pods: a rule that accepts, or
// a CNI plugin's chain.
func (n *node) acceptedBy(t *dump.Table, chain string) (string, error) {
	rules, err := n.reader.Rules(t.Chain(chain))
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
func (n *node) mark() (Item, error) {
	const bit = nft.DefaultMasqueradeMark
	i := item("packet mark", "")
	if n.unread != nil {
		return i, n.unread
	}
	for t, c := range n.chains() {
		if t.Legacy || t.IsOurs() || t.Name == components.KubeProxy || kubeproxy.IsChain(t.Name, c.Name) {
			continue
		}
		rules, err := n.reader.Rules(t.Chain(c.Name))
		if err != nil {
			return i, err
		}
		if slices.ContainsFunc(rules, func(r simulate.Rule) bool { return r.MarkBits()&bit != 0 }) {
			i.Evidence = append(i.Evidence, fmt.Sprintf("chain %s of table %s", c.Name, t))
		}
	}
	text := fmt.Sprintf("%#x", bit)
	switch {
	case len(i.Evidence) == 0:
		i.Evidence = []string{"no rule of others changes " + text}
	case n.noLabels:
		i = i.needs("without connection labels, choose another bit (nftables.masqueradeBit) than " + text)
	default:
		i.Detail = "rules change " + text + "; connection labels make masquerade independent of it"
	}
	return i, nil
}
