package preflight

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"kube-vmap/cmd/programs"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/kubeproxy"
)

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
	legacy := slices.ContainsFunc(n.Tables, func(t dump.Table) bool { return kubeproxy.IsLegacy(&t) })
	switch {
	case strings.HasPrefix(state, kubeproxy.StateReturned):
		*i = i.needs("kube-vmap went back to kube-proxy: see the reason, and clear it with kube-vmap cleanup")
	case model.ProxyName() == "" && legacy:
		i.Verdict, i.Detail = programs.Conflict, programs.Get(programs.KubeProxyLegacy).Advice
	default:
		i.Verdict, i.Detail = programs.Fine, n.takeover(found, state)
	}
	return nil
}

func (n *node) takeover(found *kubeproxy.Found, state string) string {
	running := n.otherProxy()
	switch {
	case running != "" && (n.hasOurTables() || model.ProxyName() != ""):
		return "runs (" + running + ") next to kube-vmap, which does not touch its rules"
	case model.ProxyName() != "":
		return "" // it takes over nothing
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
	return slices.ContainsFunc(n.Tables, func(t dump.Table) bool { return !t.Legacy && t.Name == nft.TableName() })
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
