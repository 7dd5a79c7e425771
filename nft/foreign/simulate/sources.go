package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

// Sources are what a simulation reads. Each is only asked for what the packet meets.
type Sources struct {
	Rules       Rules
	Network     Network
	Connections Connections
	// IPSets may be nil: what rules match in them is undecided then.
	IPSets IPSets
	// Host may be nil: a simulation of rules alone.
	Host Host
	// Neighbour returns what is known of a host on a link. It may be nil: each host exists then.
	Neighbour func(netip.Addr, Link) (Neighbour, error)
	// Interrupted is called repeatedly; an error ends the simulation. It may be nil.
	Interrupted func() error
	// Own may be nil: all tables are of other programs.
	Own Own
}

// ErrNoRoute is the error if the node has no route for a packet, or does not forward it.
var ErrNoRoute = errors.New("no route")

// Rules reads nf_tables.
type Rules interface {
	// BaseChains returns all base chains of active tables that see packets of the family, or
	// their frames (bridge, arp), in the order in which they were listed.
	BaseChains(f model.Family) ([]BaseChain, error)
	// Rules returns the rules of a chain.
	Rules(Chain) ([]Rule, error)
	// Set returns a set of a table, which may be anonymous.
	Set(t Table, name string) (*Set, error)
}

// A Table is a table, by the name of its family in nft and its own name.
type Table struct{ Family, Name string }

// String returns the table as in "ip filter".
func (t Table) String() string { return t.Family + " " + t.Name }

// A Chain is a chain of a table.
type Chain struct {
	Table Table
	Name  string
}

// A BaseChain is a chain at a hook.
type BaseChain struct {
	Chain
	Type     string // filter, nat, route
	Hook     Hook
	Priority int32
	Drop     bool // the policy: packets that no rule decides are dropped
	// Devices are, at HookIngress and HookEgress, the names of the interfaces whose packets the
	// chain sees; one that ends in an asterisk is a prefix.
	Devices []string
}

// appliesTo reports whether a packet passes the chain, by the interface that it comes in or leaves by.
func (b BaseChain) appliesTo(f *frame) bool {
	link := f.in
	if b.Hook == HookEgress {
		link = f.out
	}
	return b.Hook != HookIngress && b.Hook != HookEgress || b.isOn(link)
}

func (b BaseChain) isOn(link Link) bool {
	return slices.ContainsFunc(b.Devices, func(name string) bool {
		begins, some := strings.CutSuffix(name, "*")
		return name == link.Name || some && strings.HasPrefix(link.Name, begins)
	})
}

// A Hook is a hook of netfilter, by its name in nft.
type Hook string

// The hooks of the IP families, and the hooks of an interface.
const (
	HookPrerouting  Hook = "prerouting"
	HookInput       Hook = "input"
	HookForward     Hook = "forward"
	HookOutput      Hook = "output"
	HookPostrouting Hook = "postrouting"
	HookIngress     Hook = "ingress"
	HookEgress      Hook = "egress"
)

// Hooks are the hooks by their number in the family inet (NF_INET_*).
var Hooks = [...]Hook{HookPrerouting, HookInput, HookForward, HookOutput, HookPostrouting, HookIngress}

// A Rule is a rule as the kernel holds it.
type Rule struct {
	Handle uint64
	// Expressions are what [DecodeExpression] returns.
	Expressions []any
}

// A Set is a set or map, and the function to look up a key.
type Set struct {
	Name             string
	KeyType, KeyLen  uint32
	DataType         uint32
	Anonymous, IsMap bool
	Timeout          time.Duration // of elements that are added without one; zero means unlimited
	// Find returns the element that a key of KeyLen bytes matches.
	Find func(key []byte) (e Element, found bool, err error)
}

// An Element is an element of a set.
type Element struct {
	Data    []byte        // of a map with data
	Verdict *expr.Verdict // of a verdict map
	Comment string
	Expires time.Duration // remaining lifetime; zero means unlimited
	// Decides is true if the element has a limit or the like, which may decide otherwise.
	Decides bool
}

// Network reads the node's routing.
type Network interface {
	// Route returns the route of a packet, or [ErrNoRoute] with the reason.
	Route(RouteQuery) (Route, error)
	// AddressType returns the type of an address, RTN_*.
	AddressType(netip.Addr) (uint32, error)
	// Source returns the source address that masquerade selects for a packet which leaves
	// by an interface, towards the next hop or the destination; if that is the unspecified
	// address, the first address of the interface, which redirect selects, or the zero value.
	Source(out Link, via netip.Addr) (netip.Addr, error)
}

// A RouteQuery is a packet to be routed. It came in by In, or the node sends it if that is
// the zero value.
type RouteQuery struct {
	From, To netip.Addr
	In       Link
	Out      Link // by which it must leave; zero for any
	Mark     uint32
	TOS      uint8
	// UnknownTOS is true if a rule has changed the type of service to what is not known.
	UnknownTOS bool
	// Protocol and ports are zero if the kernel does not look at them.
	Protocol         model.Protocol
	FromPort, ToPort uint16 // FromPort is zero if it is unknown
	// Again is true for a packet of the node that was routed before, and has changed since.
	Again bool
	// Lookup is true to look up the routing table, and nothing else: neither whether the node
	// forwards nor whether it accepts the source. The result has all next hops.
	Lookup bool
}

// A Link is a network interface.
type Link struct {
	Index int
	Name  string
}

// A Route is what the node does with a packet.
type Route struct {
	Local bool // delivers it to itself
	Out   Link // interface by which it leaves
	Via   netip.Addr
	// Hops are set if there are several next hops, and which one the kernel picks is not known.
	Hops []NextHop
}

// A NextHop is one of several by which a packet may leave, in proportion to its weight.
type NextHop struct {
	Route
	Weight int
}

// A Host reads settings of the node.
type Host interface {
	// Sysctl returns a setting, as "net/ipv4/ip_forward"; empty if there is none.
	Sysctl(name string) string
	// Links returns the interfaces that are up, without the loopback and ports of others.
	Links() ([]Link, error)
	// Ports returns the ports of a bridge; none for another interface.
	Ports(Link) ([]Port, error)
}

// A Neighbour is what the node knows of a host on a link.
type Neighbour uint8

const (
	// NeighbourUnknown means that the node has not looked for it yet.
	NeighbourUnknown Neighbour = iota
	// NeighbourKnown means that it has a link layer address, or needs none.
	NeighbourKnown
	// NeighbourFailed means that there was no reply when the node last looked for it.
	NeighbourFailed
)

// A Port is a port of a bridge.
type Port struct {
	Link
	Hairpin  bool // it sends packets back to where they came from
	Isolated bool // from other such ports
}

// Connections reads connection tracking.
type Connections interface {
	// Flows returns the flows from the packet's source address, and port unless that is
	// zero, to its destination.
	Flows(Packet) ([]Flow, error)
}

// A Flow is an entry of connection tracking. Its packets do not pass nat chains again.
type Flow struct {
	Client     netip.AddrPort
	Requested  netip.AddrPort
	Endpoint   netip.AddrPort // where it is sent to
	SeenSource netip.AddrPort // as the endpoint sees it
	Status     uint32         // IPS_*
	Mark       uint32
	Labels     Labels
	State      string        // of TCP or SCTP, as conntrack -L prints it; empty if offloaded
	Expires    time.Duration // if no packet comes; zero if offloaded
	Started    time.Time     // if the kernel knows (net.netfilter.nf_conntrack_timestamp)
	Reopens    bool          // whether a first packet begins a new connection
	// Left reports whether no new connection would go to the endpoint; set by [Run].
	Left bool
}

// Labels are bits that programs set for a connection (NF_CT_LABELS_MAX_SIZE bytes).
type Labels [16]byte

// Priorities of the hooks that run all nat chains, whatever their own priorities, which
// only order them among each other (net/netfilter/nf_nat_proto.c).
const (
	destinationNATPriority = -100
	sourceNATPriority      = 100
)

func (b BaseChain) hookPriority() int32 {
	if b.Type != natType {
		return b.Priority
	}
	return b.Hook.natPriority()
}

const natType = "nat"

func (h Hook) translates() bool { return h != HookIngress && h != HookEgress && h != HookForward }

func (h Hook) natPriority() int32 {
	if h.isSourceNAT() {
		return sourceNATPriority
	}
	return destinationNATPriority
}

// orderBaseChains returns base chains by hook, in the order in which packets pass them. Of
// two with the same priority, the one added later is first (nf_hook_entries_grow).
func orderBaseChains(list []BaseChain) map[Hook][][]BaseChain {
	late := slices.Clone(list)
	slices.Reverse(late)
	slices.SortStableFunc(late, comparePriorities)
	out := map[Hook][][]BaseChain{}
	for _, b := range late {
		groups := out[b.Hook]
		if last := len(groups) - 1; last >= 0 && comparePriorities(groups[last][0], b) == 0 {
			groups[last] = append(groups[last], b)
		} else {
			out[b.Hook] = append(groups, []BaseChain{b})
		}
	}
	return out
}

func comparePriorities(a, b BaseChain) int {
	return cmp.Or(cmp.Compare(a.hookPriority(), b.hookPriority()), cmp.Compare(a.natRank(), b.natRank()),
		cmp.Compare(a.Priority, b.Priority))
}

func (b BaseChain) natRank() int {
	if b.Type == natType {
		return 1
	}
	return 0
}

// A Packet is the first packet of a connection.
type Packet struct {
	From     netip.Addr
	FromPort uint16 // zero means any
	To       netip.AddrPort
	Protocol model.Protocol
}

// Family returns the family of the packet's addresses.
func (p Packet) Family() model.Family { return model.FamilyOf(p.To.Addr()) }

// Source returns the source address, with the port if that is known: "10.244.1.7:40000".
func (p Packet) Source() string {
	if p.FromPort == 0 {
		return p.From.String()
	}
	return netip.AddrPortFrom(p.From, p.FromPort).String()
}

// String returns the packet as in "10.244.1.7 -> 10.96.0.10:53/udp".
func (p Packet) String() string { return fmt.Sprintf("%s -> %s/%s", p.Source(), p.To, p.Protocol) }
