package statustest

import (
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// AsKernel reduces a document from the daemon to what one from the kernel's tables has;
// see the comments at the fields of [status.Document]. Numbers of connections are
// removed, too.
func AsKernel(d *status.Document) *status.Document {
	out := &status.Document{Source: status.FromKernel, NodeAddresses: d.NodeAddresses, Services: []status.Service{}}
	for _, s := range d.Services {
		ports := []status.Port{}
		for _, p := range s.Ports {
			if len(p.Frontends) > 0 {
				ports = append(ports, port(p))
			}
		}
		if len(ports) > 0 {
			out.Services = append(out.Services, status.Service{Namespace: s.Namespace, Name: s.Name, Ports: ports})
		}
	}
	return out
}

// port returns what the tables have of a port.
func port(p status.Port) status.Port {
	p.Traffic, p.Rejected = status.Traffic{}, ""
	cluster, local := 0, 0
	endpoints := []status.Endpoint{}
	for _, e := range p.Endpoints {
		if e.Slot == nil && e.LocalSlot == nil {
			continue
		}
		if e.Slot != nil {
			cluster++
		}
		if e.LocalSlot != nil {
			local++
		}
		endpoints = append(endpoints, status.Endpoint{
			Address: e.Address, Port: e.Port, Slot: e.Slot, LocalSlot: e.LocalSlot, Share: e.Share, LocalShare: e.LocalShare,
		})
	}
	p.Endpoints = endpoints
	p.Scheduler, p.AffinitySeconds = balancing(p, max(cluster, local))
	frontends := []status.Frontend{}
	for _, f := range p.Frontends {
		frontends = append(frontends, frontend(f, cluster > 0))
	}
	slices.SortStableFunc(frontends, func(a, b status.Frontend) int {
		return compare(a, b)
	})
	p.Frontends = frontends
	return p
}

// balancing returns what chains show about the choice among n endpoints.
func balancing(p status.Port, n int) (scheduler string, affinity int) {
	switch {
	case n == 0:
		return "", 0
	case p.AffinitySeconds > 0:
		return "random", p.AffinitySeconds
	case n < 2, n > nft.MaxSlots && p.Scheduler != "rr":
		return "random", 0
	}
	return p.Scheduler, 0
}

// frontend returns what the tables have of a frontend; cluster reports whether its port
// has endpoints in the cluster.
func frontend(f status.Frontend, cluster bool) status.Frontend {
	served := f.Verdict == status.VerdictBalance || f.Kind != "ClusterIP" && f.Policy == "Local" && cluster
	if f.Kind == "ExternalIP" || f.Kind == "LoadBalancerIP" {
		f.Kind = status.External
	}
	if f.Verdict == status.VerdictReject {
		f.Policy = ""
	}
	if !served {
		f.Masquerade = ""
	}
	f.Traffic = status.Traffic{}
	f.Sources = outermost(f.Sources)
	return f
}

// outermost returns the ranges that no other one contains.
func outermost(all []string) (out []string) {
	for _, a := range all {
		p := netip.MustParsePrefix(a)
		inner := slices.ContainsFunc(all, func(b string) bool {
			o := netip.MustParsePrefix(b)
			return o != p && o.Bits() <= p.Bits() && o.Contains(p.Addr())
		})
		if !inner && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return out
}

// compare orders frontends as documents do: ClusterIP, NodePort, external ones.
func compare(a, b status.Frontend) int {
	kinds := []string{model.KindClusterIP.String(), model.KindNodePort.String(), status.External}
	if c := slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind); c != 0 {
		return c
	}
	if a.Address == "" || b.Address == "" {
		return strings.Compare(a.Address, b.Address)
	}
	return netip.MustParseAddr(a.Address).Compare(netip.MustParseAddr(b.Address))
}
