package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/preflight"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/nft/kernel/rtnetlink"
	"kube-vmap/nft/simulate"
	"kube-vmap/sync"
)

// addNetwork adds to the health what of the node's network keeps packets from Services.
func addNetwork(h *nodestatus.Health, loop *sync.Loop) (err error) {
	h.NotForwarding, err = notForwarding(loop)
	usage, e := conntrack.New(conntrack.Config{}).Usage()
	if e == nil {
		h.Tracking = &nodestatus.Tracking{Entries: int(usage.Entries), Max: int(usage.Max), Full: usage.IsFull()}
	}
	return cmp.Or(err, e)
}

func logNetwork(loop *sync.Loop, log *slog.Logger) {
	d := nodestatus.Document{Ready: true, Health: &nodestatus.Health{}}
	_ = addNetwork(d.Health, loop) // status has the error
	for _, f := range findings.OfNode(&d) {
		log.Warn("network of this node keeps packets from Services", "reason", f.Sentence())
	}
}

// maxRuleset is how long to wait for the loop, which may wait for the kernel.
const maxRuleset = time.Second / 2

// notForwarding returns what keeps packets of installed Services from being forwarded. It looks
// for Services only if the node drops anything: one with Services of one family need not forward
// the other.
func notForwarding(loop *sync.Loop) (list []nodestatus.NotForwarding, err error) {
	var off [len(model.Families)]map[string]string
	policies, err := preflight.ForwardPolicies()
	for _, f := range model.Families {
		off[f] = preflight.NotForwarding("/proc", f)
	}
	if err != nil || len(policies)+len(off[model.IPv4])+len(off[model.IPv6]) == 0 {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxRuleset)
	defer cancel()
	rules, _, err := loop.Ruleset(ctx)
	if err != nil || rules == nil {
		return nil, nil // not known now
	}
	network, err := rtnetlink.OpenNetwork(0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	for _, f := range model.Families {
		needed := forwardingInterfaces(network, rules, f)
		maps.DeleteFunc(off[f], func(name, _ string) bool { return !needed[name] })
		if settings := slices.Sorted(maps.Values(off[f])); len(settings) > 0 {
			list = append(list, nodestatus.NotForwarding{Family: f.String(), Settings: slices.Compact(settings)})
		}
		for i := range policies {
			p := &policies[i]
			if len(needed) > 0 && p.AcceptedBy == "" && (p.Family == "inet" || p.Family == nft.FamilyName(f)) {
				list = append(list, nodestatus.NotForwarding{Family: f.String(), Policy: p.String(), Rules: p.Rules})
			}
		}
	}
	return list, nil
}

// maxRoutes is how many endpoints of a family are looked up.
const maxRoutes = 1000

// forwardingInterfaces returns the interfaces by which packets come in that the node forwards
// between clients and endpoints of a family: those towards endpoints, and if clients outside can
// connect, those whose addresses serve node ports. There are none if each endpoint is the node
// itself, or has no route.
func forwardingInterfaces(network *rtnetlink.Network, rules *nft.Ruleset, f model.Family) map[string]bool {
	needed, seen, external := map[string]bool{}, map[netip.Addr]bool{}, false
	for _, i := range rules.Installed() {
		if i.Match.Family != f {
			continue
		}
		external = external || !i.IsClusterIP()
		for _, at := range slices.Concat(i.Cluster, i.Local) {
			if seen[at.Addr()] || len(seen) >= maxRoutes {
				continue
			}
			seen[at.Addr()] = true
			if r, err := network.Route(simulate.RouteQuery{To: at.Addr()}); err == nil && !r.Local {
				needed[r.Out.Name] = true
			}
		}
	}
	interfaces, _ := net.Interfaces() // those towards endpoints are known without
	for _, i := range interfaces {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			p, _ := netip.ParsePrefix(a.String())
			serves := p.IsValid() && model.FamilyOf(p.Addr()) == f && slices.Contains(rules.NodeAddrs(), p.Addr())
			if serves && external && len(needed) > 0 {
				needed[i.Name] = true
			}
		}
	}
	return needed
}
