package model

import (
	"net/netip"
	"slices"
)

// NodeAddrs are the addresses that serve node ports, sorted.
type NodeAddrs []netip.Addr

// Has reports whether node ports are served at an address.
func (n NodeAddrs) Has(a netip.Addr) bool {
	_, found := slices.BinarySearchFunc(n, a, netip.Addr.Compare)
	return found
}

// Find returns the frontend that packets to a destination meet, among those in a map, and the map's
// value for it: the frontend at that address or, at an address of the node, the node port.
func Find[T any](all map[Match]T, nodes NodeAddrs, to Match) (at Match, of T, found bool) {
	if of, found = all[to]; !found && nodes.Has(to.Addr) {
		to = to.atNodePort()
		of, found = all[to]
	}
	return to, of, found
}
