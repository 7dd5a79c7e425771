package preflight

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"kube-vmap/cmd/components"
	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/kernel/kubeproxy"
)

// proxies completes the item of kube-proxy with what its rules show: whether they are in effect
// or suspended, and what kube-vmap did before. It adds an item if there is none.
func (n *node) proxies(items []Item) []Item {
	i := slices.IndexFunc(items, func(i Item) bool { return strings.HasPrefix(i.Component, components.KubeProxy) })
	if i < 0 {
		items = slices.Insert(items, 0, fine("kube-proxy", "none"))
		i = 0
	}
	item := &items[i]
	found, state, err := n.takenOver()
	if err != nil {
		item.Verdict, item.Detail = Unknown, unknown("", err).Detail
		return items
	}
	if state != "" {
		item.Evidence = append(item.Evidence, "kube-vmap: "+state)
	}
	if parts := found.Suspended(); len(parts) > 0 {
		var names []string
		for _, p := range parts {
			names = append(names, p.String())
		}
		item.Evidence = append(item.Evidence, "suspended by kube-vmap: "+strings.Join(names, ", "))
	}
	if len(found.Markers) > 0 {
		item.Evidence = append(item.Evidence, "kube-vmap's marker")
	}
	item.Detail = n.takeover(found, state)
	switch {
	case strings.HasPrefix(state, kubeproxy.StateReturned):
		item.Verdict, item.Detail = components.Needs,
			"kube-vmap went back to kube-proxy: see the reason, and clear it with kube-vmap cleanup"
	case slices.ContainsFunc(n.Tables, func(t dump.Table) bool { return kubeproxy.IsLegacy(&t) }):
		item.Verdict, item.Detail = components.Conflict, components.Get(components.KubeProxyLegacy).Advice
	default:
		item.Verdict = components.Fine
	}
	return items
}

// takenOver reads what kube-proxy has in the kernel, and what kube-vmap did with it.
func (n *node) takenOver() (found *kubeproxy.Found, state string, err error) {
	if err := n.Blind(); err != nil {
		return nil, "", err
	}
	if found, err = kubeproxy.Find(0); err != nil {
		return nil, "", err
	}
	state, err = kubeproxy.ReadTakeoverState(0)
	return found, state, err
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
	hidden := slices.ContainsFunc(n.Unseen, func(u components.Unseen) bool { return u.What == components.Processes })
	return hidden && n.hasOurTables() ||
		slices.ContainsFunc(n.Processes, func(p components.Process) bool {
			return p.Name == "kube-vmap" && !p.Elsewhere &&
				p.PID != os.Getpid()
		})
}

func (n *node) hasOurTables() bool {
	return slices.ContainsFunc(n.Tables, func(t dump.Table) bool { return t.IsOurs() })
}

// otherProxy returns why another proxy seems to run; empty if none does.
func (n *node) otherProxy() string {
	for _, p := range n.Processes {
		if p.Name == components.KubeProxy && !p.Elsewhere {
			return fmt.Sprintf("process %d", p.PID)
		}
	}
	if len(n.Ports) > 0 {
		return fmt.Sprintf("TCP ports %v are in use", n.Ports)
	}
	return ""
}

// legacyTables returns an item if iptables-legacy has tables. Packets pass them as well as
// those of iptables-nft, and each tool shows only its own.
func (n *node) legacyTables() []Item {
	var tables []string
	for i := range n.Tables {
		if t := &n.Tables[i]; t.Legacy {
			tables = append(tables, "table "+t.Family+" "+t.Name)
		}
	}
	if len(tables) == 0 {
		return nil
	}
	const detail = "in use next to nf_tables, which does not list them"
	return []Item{noted("iptables-legacy", detail, tables...)}
}
