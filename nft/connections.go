package nft

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unique"

	"kube-vmap/model"
)

// A ConnectionCount is how many connections to an address and port went to an endpoint.
type ConnectionCount struct {
	// Destination is the original destination: the frontend's match, but for a node port
	// with the address of the node.
	Destination model.Match
	// Endpoint is invalid for the sum of endpoints that no longer exist.
	Endpoint    netip.AddrPort
	Connections uint64
}

// AddConnections restores counted connections in the set of a family. The keys must not
// exist yet.
type AddConnections struct {
	Family model.Family
	List   []ConnectionCount
}

// DeleteConnections deletes connections from the set of a family, by destination and
// endpoint.
type DeleteConnections struct {
	Family model.Family
	List   []ConnectionCount
}

// AddUncounted returns the op that takes frontends, by original destination, out of the count
// for [UncountedTime].
func AddUncounted(f model.Family, list []model.Match) AddElements {
	op := AddElements{Set: SetID{Family: f, Kind: SetUncounted}, Elements: make([]Element, len(list))}
	for i, m := range list {
		op.Elements[i].Key = keyOf(m)
	}
	return op
}

// A RefusalCount is how often endpoints refused connections to a frontend that retries, and how many of
// these refusals were retried.
type RefusalCount struct {
	Match             model.Match
	Refusals, Retried uint64
}

// A Client is a client that a set records, such as an affinity map.
type Client struct {
	Addr netip.Addr // invalid in [SetHeld]
	// Destination is the [model.Pool].Key of the Service port; in [SetHeld] and [SetWaiting] it is
	// the original destination.
	Destination model.Match
	Expires     time.Duration // from now
}

// Forget returns the op that deletes clients from an affinity map.
func Forget(id SetID, list []Client) DeleteElements {
	op := DeleteElements{Set: id, Elements: make([]Element, len(list))}
	for i, c := range list {
		k := keyOf(c.Destination)
		k.Source = unique.Make(netip.PrefixFrom(c.Addr, id.SourceBits()))
		op.Elements[i].Key = k
	}
	return op
}

// IsFull reports whether that many listed counters mean that the set is full: a listing may
// miss some.
func IsFull(counters int) bool { return counters >= MaxConnectionCounts*15/16 }

// Matches returns the destinations in elements of a set whose key is one.
func Matches(f model.Family, elements []Element) []model.Match {
	list := make([]model.Match, len(elements))
	for i := range elements {
		list[i] = elements[i].Key.match(f)
	}
	return list
}

func (o AddConnections) String() string    { return "add " + countedText(o.Family, o.List, true) }
func (o DeleteConnections) String() string { return "delete " + countedText(o.Family, o.List, false) }

// countedText is the object of a command.
func countedText(f model.Family, list []ConnectionCount, whole bool) string {
	parts := make([]string, len(list))
	for i, c := range list {
		to := c.KeyEndpoint()
		parts[i] = fmt.Sprintf("%s . %s . %d . %s . %d", c.Destination.Addr, c.Destination.Protocol, c.Destination.Port,
			to.Addr(), to.Port())
		if whole {
			parts[i] += fmt.Sprintf(" counter packets %d bytes 0", c.Connections)
		}
	}
	id := SetID{Family: f, Kind: SetConnections}
	return fmt.Sprintf("element %s %s { %s }", table(f), id.Name(), strings.Join(parts, ", "))
}

// KeyEndpoint returns the endpoint as the key has it: zeros if it is invalid.
func (c *ConnectionCount) KeyEndpoint() netip.AddrPort {
	switch {
	case c.Endpoint.IsValid():
		return c.Endpoint
	case c.Destination.Family == model.IPv6:
		return netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
}

// Compare orders by destination, then by endpoint.
func (c ConnectionCount) Compare(o ConnectionCount) int {
	return cmp.Or(c.Destination.Compare(o.Destination), c.Endpoint.Compare(o.Endpoint))
}

// SortConnections sorts the listing of one set, and drops repetitions. A dump of a set that
// grows or shrinks may have an element twice; the one read later has the greater count.
func SortConnections(list []ConnectionCount) []ConnectionCount {
	slices.SortFunc(list, func(a, b ConnectionCount) int {
		return cmp.Or(a.Compare(b), cmp.Compare(b.Connections, a.Connections))
	})
	return slices.CompactFunc(list, func(a, b ConnectionCount) bool { return a.Compare(b) == 0 })
}
