package preflight

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/pathcheck"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
)

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
