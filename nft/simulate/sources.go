package simulate

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

// Sources are where the answers come from. Each is asked for what the packet meets
// and for nothing else.
type Sources struct {
	Rules       Rules
	Network     Network
	Connections Connections
	// Interrupted is asked again and again: an error ends the explanation with it. It
	// may be nil.
	Interrupted func() error
}

// ErrNoTable tells that there is no table of ours for the packet's family.
var ErrNoTable = errors.New("there is no table " + tableName)

// ErrNoRoute tells that the node has no route for a packet, or does not forward it.
var ErrNoRoute = errors.New("no route")

// Rules is what nf_tables holds.
type Rules interface {
	// BaseChains are all base chains of switched-on tables that see packets of the family,
	// in the order in which they were listed.
	BaseChains(f model.Family) ([]BaseChain, error)
	// Rules are those of a chain.
	Rules(Chain) ([]Rule, error)
	// Set is the set of a table; also one without a name of its own.
	Set(t Table, name string) (*Set, error)
}

// Table is a table by its family in nft's words and its name.
type Table struct{ Family, Name string }

// String is "ip kube-vmap".
func (t Table) String() string { return t.Family + " " + t.Name }

// Chain is a chain of a table.
type Chain struct {
	Table Table
	Name  string
}

// BaseChain is a base chain: one that a hook leads to.
type BaseChain struct {
	Chain      Chain
	Type       string // filter, nat, route
	Hook       Hook
	Priority   int32
	PolicyDrop bool // what no rule decides
	// Devices are, at Ingress, the interfaces whose packets it sees, by name; one that
	// ends in an asterisk stands for all that begin so. Elsewhere they mean nothing.
	Devices []string
}

// appliesTo reports whether packets that come in by an interface pass the chain.
func (b BaseChain) appliesTo(in Link) bool {
	return b.Hook != HookIngress || slices.ContainsFunc(b.Devices, func(name string) bool {
		begins, some := strings.CutSuffix(name, "*")
		return name == in.Name || some && strings.HasPrefix(in.Name, begins)
	})
}

// Hook is a place on a packet's way, by netfilter's number (NF_INET_*).
type Hook uint32

// The hooks of the IP families.
const (
	HookPrerouting  Hook = 0
	HookInput       Hook = 1
	HookForward     Hook = 2
	HookOutput      Hook = 3
	HookPostrouting Hook = 4
	// HookIngress is that of an interface, by a number of our own: families count it
	// differently.
	HookIngress Hook = 5
)

// String is the hook in nft's words.
func (h Hook) String() string {
	return [...]string{"prerouting", "input", "forward", "output", "postrouting", "ingress"}[h]
}

// Rule is a rule as the kernel holds it.
type Rule struct {
	Handle uint64
	// Expressions are of package expr, or [UnknownExpression].
	Expressions []any
}

// UnknownExpression is an expression that is not understood, by the kernel's name for it and
// what of it is not.
type UnknownExpression struct{ Name string }

// isMatchOnly reports whether it computes something or compares, so that what comes of it
// is up to the rest of its rule.
func (u UnknownExpression) isMatchOnly() bool {
	switch u.Name {
	case "byteorder", "connlimit", "last", "limit", "osf", "quota", "rt", "socket", "tunnel", "xfrm":
		return true
	}
	return strings.HasPrefix(u.Name, "xt match ")
}

// Set is a set or map, and how to look into it.
type Set struct {
	Name             string
	KeyType, KeyLen  uint32
	DataType         uint32
	Anonymous, IsMap bool
	// Find looks for the element that a key of KeyLen bytes meets.
	Find func(key []byte) (e Element, found bool, err error)
}

// Element is what a set holds for a key.
type Element struct {
	Data    []byte        // of a map with data
	Verdict *expr.Verdict // of a verdict map
	Comment string
	Expires time.Duration // how long it stays; zero means for good
}

// Network is what the node knows of its surroundings.
type Network interface {
	// Route says where a packet goes, or [ErrNoRoute] and why.
	Route(RouteQuery) (Route, error)
	// AddressType is what the node takes the address for, RTN_*.
	AddressType(netip.Addr) (uint32, error)
	// Source is the address that is given to a packet which leaves by an interface
	// under masquerade, towards the next hop or the destination.
	Source(out Link, via netip.Addr) (netip.Addr, error)
}

// RouteQuery is a packet that looks for its route. It came in by In, or the node sends it if
// that is the zero value.
type RouteQuery struct {
	From, To netip.Addr
	In       Link
	Mark     uint32
}

// Link is a network interface.
type Link struct {
	Index int
	Name  string
}

// Route is what the node does with a packet.
type Route struct {
	Local bool // keeps it
	Out   Link // by which it leaves
	Via   netip.Addr
}

// Connections is connection tracking.
type Connections interface {
	// Flows are those from the address, and the port unless it is zero, to what the
	// packet asks for.
	Flows(Packet) ([]Flow, error)
}

// Flow is an entry of connection tracking: a connection that is under way. No
// packet of it passes the rules of nat again.
type Flow struct {
	Client     netip.AddrPort
	Requested  netip.AddrPort
	Endpoint   netip.AddrPort // where it goes
	SeenSource netip.AddrPort // the source that the endpoint sees
	Status     uint32         // IPS_*
	Mark       uint32
	State      string        // of TCP or SCTP, as conntrack -L says it
	Expires    time.Duration // if no packet comes
	Started    time.Time     // if the kernel knows (net.netfilter.nf_conntrack_timestamp)
	Reopens    bool          // whether a first packet begins a connection of its own
}
