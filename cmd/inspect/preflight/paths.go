package preflight

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/pathcheck"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
)

// Default ports: of the proxy's health check, and of pods that only routes show.
const healthPort, podPort = 10256, 8080

// paths simulates check packets as they will be after the take-over. Without endpoints from the API
// server, routes have pods.
func (n *node) paths(ctx context.Context, pods []netip.AddrPort, health []uint16) {
	results, err := simulatePaths(ctx, pods, health)
	err = errors.Join(n.Blind(), err)
	n.add(pathItem("packets of Services", "a rule or setting must let them pass: kube-vmap, like kube-proxy in "+
		"nftables mode, has no rule that accepts", "docs/compatibility.md#a-policy-of-drop-for-forwarded-packets",
		results, false), err)
	n.add(pathItem("health checks", "if load balancers check this node, a rule must accept them",
		"docs/runbook.md#before-a-node-moves", results, true), err)
}

// pathItem returns the item of check packets, those to health check ports or the others.
func pathItem(name, need, see string, results []pathcheck.Result, health bool) Item {
	texts := func(state string) []string { return pathcheck.Texts(results, state, health) }
	i, bad := item(name, "", texts(pathcheck.Delivered)...), texts(pathcheck.Uncertain)
	switch lost := texts(pathcheck.Lost); {
	case len(lost) > 0:
		i, i.See = i.needs(need+": "+strings.Join(append(lost, bad...), "; ")), see
	case len(bad) > 0:
		i.Verdict, i.Detail, i.See = Unknown, "it is not certain whether they pass: "+strings.Join(bad, "; "), see
	case len(i.Evidence) == 0:
		i.Verdict, i.Detail = Unknown, "no pod, or no default route, is known: give --kubeconfig"
	}
	return i
}

// simulatePaths simulates packets without kube-proxy's rules, each translated to its target's endpoint.
func simulatePaths(ctx context.Context, pods []netip.AddrPort, health []uint16) ([]pathcheck.Result, error) {
	found, err := kubeproxy.Find(0)
	if err != nil {
		return nil, err
	}
	var targets []pathcheck.Target
	view := func(p simulate.Packet, kernel simulate.Rules) simulate.Rules {
		kernel = found.AfterTakeover(kernel)
		i := slices.IndexFunc(targets, func(t pathcheck.Target) bool { return t.To == p.To })
		if i < 0 {
			return kernel
		}
		return livenode.Translate(kernel, targets[i].Endpoints[0], p.From == pathcheck.Clients[p.Family()])
	}
	c := livenode.Config{Interrupted: ctx.Err, WithoutOurs: true, View: view}
	return pathcheck.Simulate(c, func(n *livenode.Network) []pathcheck.Packet {
		if len(pods) == 0 {
			likely, _ := n.LikelyPods() // nothing is certain without
			for _, a := range likely {
				pods = append(pods, netip.AddrPortFrom(a, podPort))
			}
		}
		targets = pathcheck.Assume(pods)
		return pathcheck.Choose(n, targets, health)
	})
}
