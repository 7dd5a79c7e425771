package nft

import (
	"net/netip"

	"kube-vmap/model"
)

// Installed is a frontend as it stands in the tables, for those who want to look.
// Nothing of it must be changed.
type InstalledFrontend struct {
	*model.Frontend
	// Cluster and Local are the slots of those who own a pool: which endpoint is at
	// which place. Under Maglev an endpoint has several.
	Cluster, Local []netip.AddrPort
}

// Installed lists what the state has, in no order. It copies no list, so that it
// costs little, and stays as it is whatever is committed later.
func (r *Ruleset) Installed() []InstalledFrontend {
	out := make([]InstalledFrontend, 0, len(r.frontends))
	for _, p := range r.frontends {
		out = append(out, InstalledFrontend{&p.Frontend, p.slots.list(false), p.slots.list(true)})
	}
	return out
}

// NodeAddrs are the addresses that serve node ports.
func (r *Ruleset) NodeAddrs() []netip.Addr { return r.nodeAddrs }
