package nft

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/model"
)

// ConnectionCount is how many connections to an address and port went to an endpoint.
type ConnectionCount struct {
	// Destination is what clients asked for: as a frontend's match, but with the address
	// of the node where it was a node port.
	Destination model.Match
	// Endpoint is invalid for those of endpoints that are long gone, taken together.
	Endpoint    netip.AddrPort
	Connections uint64
}

// AddConnections puts connections that were counted before into the set of a family, as
// if they had just been made. None of the keys must be there.
type AddConnections struct {
	Family model.Family
	List   []ConnectionCount
}

// DeleteConnections removes connections from the set of a family; only what was asked for
// and the endpoint count.
type DeleteConnections struct {
	Family model.Family
	List   []ConnectionCount
}

func (o AddConnections) String() string    { return "add " + countedText(o.Family, o.List, true) }
func (o DeleteConnections) String() string { return "delete " + countedText(o.Family, o.List, false) }

// countedText is the object of a command.
func countedText(f model.Family, list []ConnectionCount, whole bool) string {
	parts := make([]string, len(list))
	for i, c := range list {
		to := c.KeyEndpoint()
		parts[i] = fmt.Sprintf("%s . %s . %d . %s . %d", c.Destination.Addr, c.Destination.Protocol, c.Destination.Port, to.Addr(), to.Port())
		if whole {
			parts[i] += fmt.Sprintf(" counter packets %d bytes 0", c.Connections)
		}
	}
	id := SetID{Family: f, Kind: SetConnections}
	return fmt.Sprintf("element %s %s { %s }", table(f), id.Name(), strings.Join(parts, ", "))
}

// KeyEndpoint is the endpoint as the key has it: zeros where it is none in particular.
func (c *ConnectionCount) KeyEndpoint() netip.AddrPort {
	switch {
	case c.Endpoint.IsValid():
		return c.Endpoint
	case c.Destination.Family == model.IPv6:
		return netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
}

// Compare orders by what was asked for, then by endpoint.
func (c ConnectionCount) Compare(o ConnectionCount) int {
	return cmp.Or(c.Destination.Compare(o.Destination), c.Endpoint.Compare(o.Endpoint))
}

// SortConnections puts what was read of one set in order. A dump of a set that grows or
// shrinks may have an element twice: the later one, which has more, counts.
func SortConnections(list []ConnectionCount) []ConnectionCount {
	slices.SortFunc(list, func(a, b ConnectionCount) int {
		return cmp.Or(a.Compare(b), cmp.Compare(b.Connections, a.Connections))
	})
	return slices.CompactFunc(list, func(a, b ConnectionCount) bool { return a.Compare(b) == 0 })
}
