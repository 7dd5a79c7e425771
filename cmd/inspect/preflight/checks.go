package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/pathcheck"
	vmapnode "kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/cmd/programs"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/flowtable"
	"kube-vmap/sync"
	"kube-vmap/sync/source/addresses"
	"kube-vmap/sync/source/cluster"
)

// check makes all checks, in the order of the report.
func (n *node) check(ctx context.Context, kubeconfig string) {
	n.kernel()
	n.bridge()
	n.paths(ctx)
	if kubeconfig != "" {
		n.apiServer(ctx, kubeconfig)
	}
	n.components()
	n.add(n.fastPath())
}

// kernel checks the release and the features of the kernel. The kernel validates a sample of
// everything that a rule set can have, without committing it; it may load modules for that.
func (n *node) kernel() {
	release, old := vmapnode.TooOld()
	i := item("kernel", "", release)
	if old {
		i = i.needs("needs Linux " + vmapnode.Oldest + " or later")
	}
	n.add(i, nil)
	i = item("nftables", "", "every expression that the rule set uses")
	err := vmapnode.WithKernel(func(k *kernel.Kernel) error {
		labels, err := k.SupportsLabels()
		if err != nil {
			return err
		}
		n.feature("connection labels", labels, fmt.Sprintf("CONFIG_NF_CONNTRACK_LABELS is not set: masquerade depends on "+
			"the packet mark, whose bit %#x (nftables.masqueradeBit) no other program may change", nft.DefaultMasqueradeMark))
		owner, err := k.SupportsOwner()
		if err != nil {
			return err
		}
		n.feature("table owner", owner, "before Linux 6.9 other programs can change the tables")
		return k.Probe(nft.Config{
			MasqueradeMark: nft.DefaultMasqueradeMark, NoLabels: !labels, DropInvalid: true, CountConnections: true,
			PassiveHealth: true,
		})
	})
	if err != nil {
		i.Evidence = nil
		if !errors.Is(err, fs.ErrPermission) {
			i, err = i.needs(err.Error()), nil
		}
	}
	n.add(i, err)
}

// feature adds whether the kernel has an optional feature, and what it means if not.
func (n *node) feature(name string, supported bool, otherwise string) {
	i := item(name, "", "supported")
	if !supported {
		i = item(name, otherwise, "not supported")
	}
	n.add(i, nil)
}

// bridge checks that a bridge of pods shows packets to nftables.
func (n *node) bridge() {
	if !programs.Has(programs.Find(n.Node), programs.Bridge) {
		return
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		const bypass = "replies between pods of a bridge bypass the proxy"
		name := "bridge/bridge-nf-call-" + family
		text, err := os.ReadFile(filepath.Join(n.proc, "sys/net", name))
		i := item("net."+strings.ReplaceAll(name, "/", "."), "", strings.TrimSpace(string(text)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			i, err = item(i.Name, "", "no module br_netfilter").needs("load the module br_netfilter: "+bypass), nil
		case err == nil && i.Evidence[0] == "0":
			i = i.needs("set it to 1: " + bypass)
		}
		n.add(i, err)
	}
}

// fastPath says whether --fast-path would have an effect with what is on the node. Whether
// the kernel has flowtables shows only when one is added.
func (n *node) fastPath() (Item, error) {
	i := item("fast path", "whether the kernel has flowtables shows when --fast-path starts", "nothing known against it")
	i.See = "docs/usage.md#fast-path"
	list, err := flowtable.List(0)
	if reason := cmp.Or(flowtable.Foreign(list), programs.Obstacle(n.Node)); reason != "" {
		i.Detail, i.Evidence = "--fast-path would stay off: "+reason, nil
	}
	return i, err
}

const apiTimeout = 5 * time.Second

// apiServer asks the API server for its version, at the address in the kubeconfig, and for the
// ServiceCIDRs. An address in one that is on no link is a ClusterIP, or as good as one.
func (n *node) apiServer(ctx context.Context, kubeconfig string) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	const need = "must be reachable from the node, without a Service: "
	var version string
	var at []netip.AddrPort
	client, err := cluster.ForRequests(kubeconfig)
	if err == nil {
		version, err = client.Version(ctx)
	}
	if err == nil {
		at, err = client.Server(ctx)
	}
	if err != nil {
		i := item("API server", "").needs(need + err.Error())
		i.See = "deploy/README.md#settings"
		n.add(i, nil)
		return
	}
	interfaces, unlisted := addresses.Read()
	hosts := sync.Networks(interfaces)
	cidrs, unread := client.ServiceCIDRs(ctx)
	i := item("API server", "", version)
	for _, a := range at {
		inside := func(p netip.Prefix) bool { return p.Contains(a.Addr()) }
		onLink := slices.ContainsFunc(hosts, func(h sync.HostRange) bool { return inside(h.Prefix) })
		if cluster.IsOwnService(a) || slices.ContainsFunc(cidrs, inside) && !onLink {
			i = i.needs(need + a.String() + " is a ClusterIP")
			i.See = "deploy/README.md#settings"
		} else {
			hosts = append(hosts, sync.HostRange{Prefix: netip.PrefixFrom(a.Addr(), a.Addr().BitLen()), Of: "the API server"})
		}
	}
	n.add(i, nil)
	i = item("ServiceCIDRs", "", fmt.Sprint(cidrs))
	if text := sync.Overlaps(cidrs, hosts); text != "" {
		i = i.needs("give Services another range, or check that other nodes are on a link of this one: " + text)
		i.See = "docs/limits.md#behaviour"
	}
	n.add(i, cmp.Or(unread, unlisted))
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

// Ports that are assumed: of pods, of the proxy's health check, and the first node port, by default.
const podPort, healthPort, nodePort = 8080, 10256, 30000

// paths simulates check packets as they will be after the take-over.
func (n *node) paths(ctx context.Context) {
	results, err := simulatePaths(ctx)
	err = errors.Join(n.Blind(), err)
	n.add(pathItem("packets of Services", "a rule or setting must let them pass: kube-vmap, like kube-proxy in "+
		"nftables mode, has no rule that accepts", "docs/compatibility.md#a-policy-of-drop-for-forwarded-packets",
		results, false), err)
	n.add(pathItem("health checks", "if load balancers check this node, a rule must accept them",
		"docs/runbook.md#before-a-node-moves", results, true), err)
}

// pathItem returns the item of check packets, those to health check ports or the others.
func pathItem(name, need, see string, results []pathcheck.Result, health bool) Item {
	texts := map[string][]string{}
	for _, r := range results {
		if r.Health == health {
			texts[r.State] = append(texts[r.State], r.Text)
		}
	}
	i, lost, uncertain := item(name, "", texts[pathcheck.Delivered]...), texts[pathcheck.Lost], texts[pathcheck.Uncertain]
	switch {
	case len(lost) > 0:
		i, i.See = i.needs(need+": "+strings.Join(append(lost, uncertain...), "; ")), see
	case len(uncertain) > 0:
		i.Verdict, i.Detail, i.See = Unknown, "it is not certain whether they pass: "+strings.Join(uncertain, "; "), see
	case len(i.Evidence) == 0:
		i.Verdict, i.Detail = Unknown, "no pod is known yet, or no default route"
	}
	return i
}

// simulatePaths simulates packets to addresses that no Service has, each of which is translated to a
// host that the node knows.
func simulatePaths(ctx context.Context) ([]pathcheck.Result, error) {
	found := &kubeproxy.Found{}
	if model.ProxyName() == "" { // otherwise kube-proxy's rules stay
		var err error
		if found, err = kubeproxy.Find(0); err != nil {
			return nil, err
		}
	}
	var targets []pathcheck.Target
	view := func(p simulate.Packet, kernel simulate.Rules) simulate.Rules {
		i := slices.IndexFunc(targets, func(t pathcheck.Target) bool { return t.To == p.To })
		v := kubeproxy.View{Kernel: kernel, Found: found, Masquerade: p.From == pathcheck.Clients[p.Family()]}
		if i >= 0 {
			v.Endpoint = targets[i].Endpoints[0]
		}
		return v
	}
	c := livenode.Config{Interrupted: ctx.Err, WithoutOurs: true, View: view}
	return pathcheck.Simulate(c, func(n *livenode.Network) []pathcheck.Packet {
		hosts, _ := n.Neighbours() // without them nothing is certain
		for i, a := range hosts {
			f, endpoint := model.FamilyOf(a), []netip.AddrPort{netip.AddrPortFrom(a, podPort)}
			for kind, at := range [...]netip.Addr{
				model.KindNodePort: pathcheck.NodeAddr(f), model.KindClusterIP: pathcheck.Clients[f].Next(),
				model.KindLoadBalancerIP: pathcheck.Clients[f].Next().Next(),
			} {
				if !at.IsValid() {
					continue
				}
				to := netip.AddrPortFrom(at, uint16(nodePort+1+i))
				t := pathcheck.Target{To: to, Protocol: model.TCP, Kind: model.Kind(kind), Endpoints: endpoint}
				targets = append(targets, t)
			}
		}
		return pathcheck.Choose(n, targets, []uint16{healthPort, nodePort})
	})
}
