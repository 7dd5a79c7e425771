package preflight

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"kube-vmap/cmd/programs"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/nft/foreign/simulate"
)

// acceptors are the beginnings of the names of chains in which CNI plugins accept the traffic of
// pods. Package components has their origins.
var acceptors = []string{"cali-", "CILIUM_", "FLANNEL-FWD", "KUBE-ROUTER-", "CNI-FORWARD", "ANTREA-", "OVN-KUBE-"}

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
	if n.unread == nil {
		_ = n.reader.Close() // it was only read from
	}
}

// policy checks the chains at a hook of nf_tables whose policy is drop. kube-proxy's iptables
// and ipvs modes have rules that accept packets of Services; kube-vmap has none, as kube-proxy's
// nftables mode. Policies of iptables-legacy are not known.
func (n *node) policy(hook simulate.Hook, need, see string) (Item, error) {
	i := item(string(hook)+" policy", "")
	if n.unread != nil {
		return i, n.unread
	}
	policies, err := dropPolicies(n.Tables, n.reader, hook)
	if err != nil {
		return i, err
	}
	var accepted []string
	for k := range policies {
		p := &policies[k]
		i.Evidence = append(i.Evidence, p.String())
		if p.AcceptedBy == "" {
			i.See = see
			return i.needs(need), nil
		}
		accepted = append(accepted, p.AcceptedBy)
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

// acceptedBy returns which of the rules of a chain may accept the traffic of pods: one that
// accepts, or one that jumps to a CNI plugin's chain.
func acceptedBy(rules []simulate.Rule) string {
	for _, rule := range rules {
		if slices.ContainsFunc(acceptors, func(start string) bool { return strings.HasPrefix(rule.Jump(), start) }) {
			return "chain " + rule.Jump() + " accepts"
		}
	}
	if slices.ContainsFunc(rules, simulate.Rule.Accepts) {
		return "rules in it accept some packets"
	}
	return ""
}

// proxy completes the item of kube-proxy with what its rules show: whether they are in effect
// or suspended, and what kube-vmap did before.
func (n *node) proxy(i *Item) error {
	if err := n.Blind(); err != nil {
		return err
	}
	found, err := kubeproxy.Find(0)
	if err != nil {
		return err
	}
	state, err := kubeproxy.ReadTakeoverState(0)
	if err != nil {
		return err
	}
	if state != "" {
		i.Evidence = append(i.Evidence, "kube-vmap: "+state)
	}
	for _, p := range found.Suspended() {
		i.Evidence = append(i.Evidence, "suspended by kube-vmap: "+p.String())
	}
	if len(found.Markers) > 0 {
		i.Evidence = append(i.Evidence, "kube-vmap's marker")
	}
	switch {
	case strings.HasPrefix(state, kubeproxy.StateReturned):
		*i = i.needs("kube-vmap went back to kube-proxy: see the reason, and clear it with kube-vmap cleanup")
	case slices.ContainsFunc(n.Tables, func(t dump.Table) bool { return kubeproxy.IsLegacy(&t) }):
		i.Verdict, i.Detail = programs.Conflict, programs.Get(programs.KubeProxyLegacy).Advice
	default:
		i.Verdict, i.Detail = programs.Fine, n.takeover(found, state)
	}
	return nil
}

// takeover returns what taking over means on this node.
func (n *node) takeover(found *kubeproxy.Found, state string) string {
	running := n.otherProxy()
	switch {
	case running != "" && n.hasOurTables():
		return "runs (" + running + ") next to kube-vmap, which does not touch its rules"
	case running != "":
		return "runs (" + running + "): kube-vmap waits until it ends; it can go back to it during the probation"
	case len(found.Suspended()) > 0 || strings.HasPrefix(state, "probation"):
		return "suspended: kube-vmap can go back to it"
	case found.IPVS:
		return "left over: kube-vmap can go back to it during the probation; connections through IPVS end after that"
	case len(found.Awake()) > 0:
		return "left over: kube-vmap suspends its rules, and can go back to it during the probation"
	}
	return ""
}

// isRunning reports whether kube-vmap runs on the node: by its process, or if processes are
// not visible, by its tables.
func (n *node) isRunning() bool {
	hidden := slices.ContainsFunc(n.Unseen, func(u programs.Unseen) bool { return u.What == programs.Processes })
	return hidden && n.hasOurTables() ||
		slices.ContainsFunc(n.Processes, func(p programs.Process) bool {
			return p.Name == "kube-vmap" && !p.Elsewhere && p.PID != os.Getpid()
		})
}

func (n *node) hasOurTables() bool {
	return slices.ContainsFunc(n.Tables, func(t dump.Table) bool { return t.IsOurs() })
}

// otherProxy returns why another proxy seems to run; empty if none does.
func (n *node) otherProxy() string {
	for _, p := range n.Processes {
		if p.Name == programs.KubeProxy && !p.Elsewhere {
			return fmt.Sprintf("process %d", p.PID)
		}
	}
	if len(n.Ports) > 0 {
		return fmt.Sprintf("TCP ports %v are in use", n.Ports)
	}
	return ""
}
