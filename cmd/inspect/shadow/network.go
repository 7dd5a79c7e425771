package shadow

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/simulate"
)

// A network is the node's routing as far as rules of Services depend on it: which addresses
// are the node's own. Routes to everything else are the same for both rule sets, so that they
// need not be those of the kernel, of which there would be one query for each endpoint.
type network struct {
	local   map[netip.Addr]bool
	primary [len(model.Families)]netip.Addr
}

var (
	uplink   = simulate.Link{Index: 2, Name: "shadow"}
	loopback = simulate.Link{Index: 1, Name: "lo"}
)

// newNetwork returns the network of a node with these addresses, of which the first of a
// family that is not the loopback's is its primary one if the node has none.
func newNetwork(addrs []netip.Addr, primary [len(model.Families)]netip.Addr) *network {
	n := &network{local: map[netip.Addr]bool{}, primary: primary}
	for _, a := range addrs {
		n.local[a] = true
		if f := model.FamilyOf(a); !n.primary[f].IsValid() && !a.IsLoopback() && !a.IsLinkLocalUnicast() {
			n.primary[f] = a
		}
	}
	return n
}

func (n *network) isLocal(a netip.Addr) bool { return a.IsLoopback() || n.local[a] }

// AddressType implements [simulate.Network].
func (n *network) AddressType(a netip.Addr) (uint32, error) {
	switch {
	case n.isLocal(a):
		return unix.RTN_LOCAL, nil
	case a.IsMulticast():
		return unix.RTN_MULTICAST, nil
	}
	return unix.RTN_UNICAST, nil
}

// Route implements [simulate.Network].
func (n *network) Route(q simulate.RouteQuery) (simulate.Route, error) {
	if n.isLocal(q.To) {
		return simulate.Route{Local: true, Out: loopback}, nil
	}
	return simulate.Route{Out: uplink}, nil
}

// Source implements [simulate.Network].
func (n *network) Source(_ simulate.Link, via netip.Addr) (netip.Addr, error) {
	f := model.FamilyOf(via)
	if n.primary[f].IsValid() {
		return n.primary[f], nil
	}
	return [...]netip.Addr{model.IPv4: netip.AddrFrom4([4]byte{127, 0, 0, 1}), model.IPv6: netip.IPv6Loopback()}[f], nil
}

// Flows implements [simulate.Connections]: all packets begin a connection.
func (n *network) Flows(simulate.Packet) ([]simulate.Flow, error) { return nil, nil }
