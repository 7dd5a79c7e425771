package nft

import (
	"net/netip"

	"kube-vmap/model"
)

// Standing is a frontend as it stands in the tables, for those who want to look.
// Nothing of it must be changed.
type Standing struct {
	*model.Frontend
	// Cluster and Local are the slots of those who own a pool: which endpoint is at
	// which place. Under Maglev an endpoint has several.
	Cluster, Local []netip.AddrPort
}

// Standing lists what the state has, in no order. It copies no list, so that it
// costs little, and stays as it is whatever is committed later.
func (r *Ruleset) Standing() []Standing {
	out := make([]Standing, 0, len(r.frontends))
	for _, p := range r.frontends {
		out = append(out, Standing{&p.Frontend, p.slots.list(false), p.slots.list(true)})
	}
	return out
}

// NodeAddrs are the addresses that serve node ports.
func (r *Ruleset) NodeAddrs() []netip.Addr { return r.nodeAddrs }
