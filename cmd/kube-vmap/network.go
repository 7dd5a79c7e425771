package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/preflight"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
)

// A problemAdder adds a problem of the node.
type problemAdder func(reason, format string, args ...any)

// addNetwork adds what of the node's network keeps packets from Services.
func addNetwork(add problemAdder, loop *sync.Loop) error {
	full, err := conntrack.New(conntrack.Config{}).IsFull()
	if full {
		add(nodestatus.ReasonTracking, "connection tracking is nearly full: new connections may be dropped")
	}
	return cmp.Or(notForwarding(add, loop), err)
}

// networkState returns how full connection tracking is, and in which families the node forwards; nil
// if the kernel does not show it.
func networkState() *nodestatus.Network {
	tracked, most, err := conntrack.New(conntrack.Config{}).Usage()
	if err != nil || most == 0 {
		return nil
	}
	var forwarding []string
	for _, f := range model.Families {
		forwarding = append(forwarding, f.String()+" "+preflight.Forwarding("/proc", f))
	}
	return &nodestatus.Network{
		Tracked: int(tracked), TrackedMax: int(most), Forwarding: strings.Join(forwarding, ", "),
	}
}

// maxRuleset is how long to wait for the loop, which may wait for the kernel.
const maxRuleset = time.Second / 2

// notForwarding adds what keeps packets of installed Services from being forwarded. It looks for
// Services only if the node drops anything: one with Services of one family need not forward the other.
func notForwarding(add problemAdder, loop *sync.Loop) (err error) {
	var off [len(model.Families)]map[string]string
	for _, f := range model.Families {
		off[f] = preflight.NotForwarding("/proc", f)
	}
	policies, err := preflight.ForwardPolicies()
	if err != nil || len(policies)+len(off[model.IPv4])+len(off[model.IPv6]) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxRuleset)
	defer cancel()
	rules, _, err := loop.Ruleset(ctx)
	if err != nil || rules == nil {
		return nil // not known now
	}
	network, err := livenode.OpenNetwork(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	for _, f := range model.Families {
		needed := forwardingInterfaces(network, rules, f)
		maps.DeleteFunc(off[f], func(name, _ string) bool { return !needed[name] })
		if settings := slices.Compact(slices.Sorted(maps.Values(off[f]))); len(settings) > 0 {
			add(nodestatus.ReasonForwarding, "%s packets of Services are not forwarded while these sysctls are 0: %s",
				f, strings.Join(settings, ", "))
		}
		for i := range policies {
			switch p := &policies[i]; {
			case len(needed) == 0 || p.Family != "inet" && p.Family != nft.FamilyName(f):
			case p.Rules:
				add(nodestatus.ReasonForwardRules, "rules of other programs must accept forwarded %s packets: %s", f, p)
			default:
				add(nodestatus.ReasonForwarding, "nothing accepts forwarded %s packets: %s", f, p)
			}
		}
	}
	return nil
}

// maxRoutes is how many endpoints of a family are looked up.
const maxRoutes = 1000

// forwardingInterfaces returns the interfaces by which packets come in that the node forwards
// between clients and endpoints of a family: those towards endpoints, and if clients outside can
// connect, those whose addresses serve node ports. There are none if each endpoint is the node
// itself, or has no route.
func forwardingInterfaces(network *livenode.Network, rules *nft.Ruleset, f model.Family) map[string]bool {
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
		if external && len(needed) > 0 && slices.ContainsFunc(addrs, func(a net.Addr) bool {
			p, _ := netip.ParsePrefix(a.String())
			return p.IsValid() && model.FamilyOf(p.Addr()) == f && slices.Contains(rules.NodeAddrs(), p.Addr())
		}) {
			needed[i.Name] = true
		}
	}
	return needed
}
