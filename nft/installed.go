package nft

import (
	"net/netip"

	"kube-vmap/model"
)

// An InstalledFrontend is a frontend as it is in the tables. It is read-only.
type InstalledFrontend struct {
	*model.Frontend
	// Cluster and Local are the endpoints by slot, if the frontend owns a pool. With shares
	// and with Maglev an endpoint has several slots.
	Cluster, Local []netip.AddrPort
}

// Installed returns all frontends of the state, sorted by match. It copies no endpoints and so
// costs little. Later commits do not change the result.
func (r *Ruleset) Installed() []InstalledFrontend {
	out := make([]InstalledFrontend, 0, r.frontends.len)
	for p := range r.frontends.all() {
		out = append(out, InstalledFrontend{&p.Frontend, p.slots.list(false), p.slots.list(true)})
	}
	return out
}

// ServiceCIDRs returns the ranges of ClusterIPs, without host ranges.
func (r *Ruleset) ServiceCIDRs() []netip.Prefix { return r.cidrs }

// NodeAddrs returns the addresses that serve node ports.
func (r *Ruleset) NodeAddrs() []netip.Addr { return r.nodeAddrs }
