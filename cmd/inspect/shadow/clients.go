package shadow

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate"
)

// A client is where packets come from.
type client struct {
	name string // in reports
	addr netip.Addr
	in   simulate.Link // none if the node sends them
}

// Names of clients.
const (
	clientPod      = "pod"
	clientNode     = "node"
	clientOutside  = "outside"
	clientAllowed  = "allowed" // of a frontend with source ranges
	clientEndpoint = "endpoint"
)

const clientPort = 41234

// outsideAddrs are addresses of clients outside: those for documentation (RFC 5737, RFC 3849),
// which no cluster has.
var outsideAddrs = [len(model.Families)]netip.Addr{
	model.IPv4: netip.MustParseAddr("203.0.113.213"), model.IPv6: netip.MustParseAddr("2001:db8:ffff:ffff::d5"),
}

// podAddrs are addresses of pods that are recognized by their interface.
var podAddrs = [len(model.Families)]netip.Addr{
	model.IPv4: netip.MustParseAddr("198.51.100.213"), model.IPv6: netip.MustParseAddr("2001:db8:ffff:fffe::d5"),
}

// everyClient returns the clients whose packets go to every frontend of a family: a pod, the
// node, and one that is neither. The node uses the destination's address if that is its own,
// as the kernel does.
func everyClient(rules nft.Config, n *network, to netip.Addr) []client {
	f := model.FamilyOf(to)
	list := []client{{clientOutside, outsideAddrs[f], uplink}}
	switch {
	case n.isLocal(to):
		list = append(list, client{name: clientNode, addr: to})
	case n.primary[f].IsValid():
		list = append(list, client{name: clientNode, addr: n.primary[f]})
	}
	if rules.DetectsPods(f) {
		list = append(list, client{clientPod, podAddress(rules, f), podLink(rules)})
	}
	return list
}

// maxHairpins limits how many endpoints of a Service port are clients of it.
const maxHairpins = 64

// clients returns the clients for a frontend. Endpoints on this node ask their own Service,
// because they may get themselves.
func (c *comparer) clients(f *frontend, to netip.Addr) []client {
	rules := c.in.Ruleset.Config()
	list := everyClient(rules, c.network, to)
	if f.ours == nil {
		return list
	}
	if f.ours.Restricted && len(f.ours.Sources) > 0 {
		list = append(list, client{clientAllowed, f.ours.Sources[0].Addr(), uplink})
	}
	if f.ours.Kind == model.KindClusterIP {
		for _, a := range f.ours.Pool.Hairpin[:min(len(f.ours.Pool.Hairpin), maxHairpins)] {
			list = append(list, client{clientEndpoint, a, podLink(rules)})
		}
	}
	return list
}

// podAddress returns an address of a pod that is probably no endpoint: the last but one of
// the range.
func podAddress(rules nft.Config, f model.Family) netip.Addr {
	if p := rules.Pods[f]; rules.PodInterface.Name == "" && p.IsValid() {
		if last := model.LastAddr(p); p.Contains(last.Prev()) {
			return last.Prev()
		}
		return p.Addr()
	}
	return podAddrs[f]
}

func podLink(rules nft.Config) simulate.Link {
	i := rules.PodInterface
	if i.Name == "" {
		return uplink
	}
	if i.Prefix {
		i.Name += "0"
	}
	return simulate.Link{Index: 3, Name: i.Name}
}

// maxBounds limits how many clients at bounds of ranges are tried for a frontend, whatever
// its author has listed.
const maxBounds = 256

// atBounds returns the first and last addresses of prefixes and those next to them, each once.
func atBounds(ranges []netip.Prefix) []netip.Addr {
	var out []netip.Addr
	for _, p := range ranges {
		first, last := p.Masked().Addr(), model.LastAddr(p)
		out = append(out, first.Prev(), first, last, last.Next())
	}
	out = slices.DeleteFunc(out, func(a netip.Addr) bool { return !a.IsValid() })
	slices.SortFunc(out, netip.Addr.Compare)
	out = slices.Compact(out)
	return out[:min(len(out), maxBounds)]
}

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
