package nft

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Connections are counted where their packets have the endpoint as destination: in hooks of
// type nat, which only the first packet of a connection passes, after the translation of the
// destination and before the translation of the source.
//
//	10.96.0.10:80 --nat-prerouting--> 10.244.1.2:8080 --nat-postrouting--> counted
//	                                                   \-nat-input-------> counted
//	set connections: 10.96.0.10 . tcp . 80 . 10.244.1.2 . 8080 counter packets 3 bytes 180
//
// The key contains everything that a count belongs to. So counts survive restarts, and endpoints
// that move from slot to slot keep theirs. A frontend without connections costs nothing. Other
// programs translate destinations, too; elements for addresses without a frontend are removed.

// Clients choose how many pairs of a Service they use. If the set fills, package connections of
// sync puts the frontends of namespaces that have more than their share into another set:
//
//	set uncounted: 10.96.0.66 . tcp . 80 timeout 10m
//
// Its elements expire, so a restart has nothing to remember.

// UncountedTime is how long a frontend remains in [SetUncounted].
const UncountedTime = 10 * time.Minute

// MaxConnectionCounts is how many pairs of original destination and endpoint are counted in
// each family. Connections of further pairs are only counted in total
// ([CounterConnectionsFull]). Listing a set that packets fill costs the kernel the square
// of its size, since it starts over for each piece of the dump: half a second for 100,000,
// seconds for twice as many.
const MaxConnectionCounts = 1 << 17

// countRule sends connections whose destination was translated to the rules that count them.
func countRule(f model.Family) Rule {
	return Rule{translated(), jump(ChainID{Family: f, Kind: ChainCount})}
}

// countRules count a connection: of a known pair by looking it up, of a new one unless its frontend
// is not counted for now. If the set is full, or the kernel gets no memory for an element without
// waiting, the third rule does not match, and the fourth counts the uncounted ones. The match on
// protocols is for nft: without it, 1.0.6 does not know that the key has ports
// (ct_expr_update_type), and cannot load it.
func countRules(f model.Family) []Rule {
	pair := SetID{Family: f, Kind: SetConnections}
	return []Rule{
		{withPorts(), in(pair), back()},
		{withPorts(), in(SetID{Family: f, Kind: SetUncounted}), back()},
		{withPorts(), count(pair), back()},
		{withPorts(), countIn(CounterConnectionsFull)},
	}
}

// unansweredRule counts retransmissions: a client of TCP or SCTP without a reply to its first
// packet sends it again, after a second or more. By then the connection is confirmed, which happens
// when its first packet has left. Over UDP any number of packets may precede a reply.
func unansweredRule() Rule {
	return Rule{protocolIsNot(model.UDP), confirmed(), translated(), countIn(CounterUnanswered)}
}

func withPorts() Statement {
	names := make([]string, len(model.Protocols))
	for i, p := range model.Protocols {
		names[i] = p.String()
	}
	return Statement{
		Text:      "meta l4proto { " + strings.Join(names, ", ") + " }",
		Protocols: model.Protocols[:],
		Expressions: []any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: regValue},
			&expr.Lookup{SourceRegister: regValue, SetName: anonymousSet},
		},
	}
}

// count adds one to the counter of the packet's key, and adds the element if it is new.
// "update" would do the same, but kernels require a timeout for it.
func count(id SetID) Statement {
	change := &expr.Dynset{Operation: unix.NFT_DYNSET_OP_ADD, Exprs: []expr.Any{&expr.Counter{}}}
	return changeSet(id, "add", " counter", change)
}

// changeSet changes the element of the packet's key.
func changeSet(id SetID, word, options string, change *expr.Dynset) Statement {
	load, _ := loadKey(id, pick{})
	change.SrcRegKey, change.SetName, change.SetID = regKey, id.Name(), byNameOnly
	return Statement{
		Text:        fmt.Sprintf("%s @%s { %s%s }", word, id.Name(), lookup(id, pick{}), options),
		sets:        []SetID{id},
		Expressions: append(load, change),
	}
}

// A Counter is one of the named counters, which every table has. They are its only objects that
// are neither chains nor sets.
type Counter uint8

// The named counters.
const (
	CounterAffinityFull    Counter = iota // connections whose client could not be remembered
	CounterConnectionsFull                // connections that could not be counted
	CounterUnanswered                     // first packets of connections that were sent again
	CounterHeld                           // packets of connections that were held
	Counters
)

// String returns the counter's name in the table.
func (c Counter) String() string {
	return [Counters]string{"affinity-full", "connections-full", "unanswered", "held"}[c]
}

// countIn counts a connection in a named counter.
func countIn(c Counter) Statement {
	return Statement{
		Text:        fmt.Sprintf("counter name %q", c),
		Expressions: []any{&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: c.String()}},
	}
}

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
