package nft

import (
	"cmp"
	"net/netip"
	"slices"
	"unique"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// ChainKind is one of the kinds of chains of the rule set.
type ChainKind uint8

// The kinds of chains, in the order in which they are declared. Those up to
// RejectChain every table has; the others come with use.
const (
	FilterPrerouting ChainKind = iota
	FilterOutputEarly
	NATPrerouting
	NATOutput
	RestorePrerouting
	RestoreOutput
	FilterInput
	FilterForward
	FilterOutput
	NATPostrouting
	SourceCheck
	Restore
	ServiceCheck
	RejectChain
	Endpoint       // ep-K: translates to the endpoint in slot K
	StickyEndpoint // remembers that the client has this endpoint, and translates to what it has
	StickyFound    // sticky-found: translates to the endpoint that the client has
	StickyPick     // sticky-ep-K: goes to the sticky endpoint in slot K
	Balance        // lb-N: picks one of N endpoints
	Cluster        // cluster-N: marks for masquerade what is not from a pod, then balances
	Masquerade     // masquerade-N: marks everything for masquerade, then balances
	Service        // service-N: makes the ClusterIP the destination, then balances
	External       // external-N: marks everything for masquerade, then goes to service-N
	ExternalLocal  // external-local-N: pods and the node as under Cluster policy, others to local endpoints
	NATInput       // nat-input: counts connections to endpoints that are this node, with [Config].Count
	chainKinds
	unknownChain
)

// MaxSlots is the highest number of endpoints that are spread over slots. A
// Service with more keeps them all in one map: the kernel finds maps by walking
// a list, so there must not be thousands. Kubernetes itself supports 250.
const MaxSlots = 255

// method is how a chain picks an endpoint.
type method uint8

const (
	pickRandom method = iota
	pickRoundRobin
	pickSourceHash
	pickMaglev
	pickSticky // at random, but the same one again for a client that is remembered
	methods
)

// methodNames are what balancing chains are called.
var methodNames = [methods]string{"lb", "rr", "sh", "maglev", "sticky"}

// hook is where and when a base chain sees packets.
type hook struct {
	chainType string
	number    uint32
	name      string
	priority  int32
	// priorityName is how nft lists the priority.
	priorityName string
}

// Hooks and priorities are kube-proxy's: other components of a cluster rely on
// translation at dstnat and srcnat and on refusal at filter.
var chainSchema = [chainKinds]struct {
	name string
	hook *hook
}{
	FilterPrerouting:  {"filter-prerouting", &hook{"filter", unix.NF_INET_PRE_ROUTING, "prerouting", -110, "dstnat - 10"}},
	FilterOutputEarly: {"filter-output-early", &hook{"filter", unix.NF_INET_LOCAL_OUT, "output", -110, "-110"}},
	NATPrerouting:     {"nat-prerouting", &hook{"nat", unix.NF_INET_PRE_ROUTING, "prerouting", -100, "dstnat"}},
	NATOutput:         {"nat-output", &hook{"nat", unix.NF_INET_LOCAL_OUT, "output", -100, "-100"}},
	RestorePrerouting: {"restore-prerouting", &hook{"filter", unix.NF_INET_PRE_ROUTING, "prerouting", -99, "dstnat + 1"}},
	RestoreOutput:     {"restore-output", &hook{"filter", unix.NF_INET_LOCAL_OUT, "output", -99, "-99"}},
	FilterInput:       {"filter-input", &hook{"filter", unix.NF_INET_LOCAL_IN, "input", 0, "filter"}},
	FilterForward:     {"filter-forward", &hook{"filter", unix.NF_INET_FORWARD, "forward", 0, "filter"}},
	FilterOutput:      {"filter-output", &hook{"filter", unix.NF_INET_LOCAL_OUT, "output", 0, "filter"}},
	NATPostrouting:    {"nat-postrouting", &hook{"nat", unix.NF_INET_POST_ROUTING, "postrouting", 100, "srcnat"}},
	SourceCheck:       {"source-check", nil},
	Restore:           {"restore", nil},
	ServiceCheck:      {"service-check", nil},
	RejectChain:       {"reject-chain", nil},
	Endpoint:          {"ep", nil},
	StickyEndpoint:    {"sticky", nil},
	StickyFound:       {"sticky-found", nil},
	StickyPick:        {"sticky-ep", nil},
	Balance:           {"", nil}, // named after the method
	Cluster:           {"cluster", nil},
	Masquerade:        {"masquerade", nil},
	Service:           {"service", nil},
	External:          {"external", nil},
	ExternalLocal:     {"external-local", nil},
	NATInput:          {"nat-input", &hook{"nat", unix.NF_INET_LOCAL_IN, "input", 100, "100"}},
}

// baseChains are the chains every table has.
const baseChains = RejectChain + 1

// ChainID refers to a chain of the rule set. Fields that a kind does not have
// are zero.
type ChainID struct {
	Family model.Family
	Kind   ChainKind
	// Local tells that the chain chooses among endpoints of this node only,
	// NodePort that it is reached by node ports.
	Local, NodePort bool
	Method          method
	// N is the slot or the number of endpoints.
	N uint32
	// Sticky is of a StickyEndpoint, which has no N.
	Sticky unique.Handle[Sticky]
}

// Sticky is an endpoint that remembers its clients for a time.
type Sticky struct {
	Endpoint netip.AddrPort
	Protocol model.Protocol
	Seconds  uint32
}

func compareChains(a, b ChainID) int {
	if a == b {
		return 0
	}
	c := cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Kind, b.Kind), compareBool(a.Local, b.Local),
		compareBool(a.NodePort, b.NodePort), cmp.Compare(a.Method, b.Method), cmp.Compare(a.N, b.N))
	if c != 0 || a.Kind != StickyEndpoint {
		return c
	}
	s, t := a.Sticky.Value(), b.Sticky.Value()
	return cmp.Or(s.Endpoint.Compare(t.Endpoint), cmp.Compare(s.Protocol, t.Protocol), cmp.Compare(s.Seconds, t.Seconds))
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// needs lists the chains and sets that come with use and that the rules of the
// chain refer to.
func (id ChainID) needs() []object {
	chain := func(kind ChainKind, local, nodePort bool, m method, n uint32) object {
		return object{chain: ChainID{Family: id.Family, Kind: kind, Local: local, NodePort: nodePort, Method: m, N: n}}
	}
	set := func(kind SetKind, slot uint32) object {
		return object{set: SetID{id.Family, kind, id.Local, uint16(slot)}, isSet: true}
	}
	switch id.Kind {
	case Cluster, Masquerade, Service:
		return []object{chain(Balance, id.Local, false, id.Method, id.N)}
	case External:
		return []object{chain(Service, false, id.NodePort, id.Method, id.N)}
	case ExternalLocal:
		return []object{
			chain(Service, false, id.NodePort, id.Method, id.N), chain(External, false, id.NodePort, id.Method, id.N),
		}
	case Balance:
		return id.choices(chain, set)
	case Endpoint:
		return []object{set(Endpoints, id.N)}
	case StickyPick:
		return []object{set(StickyEndpoints, id.N)}
	case StickyEndpoint:
		return []object{set(Affinity, 0), chain(StickyFound, id.Local, false, 0, 0)}
	case StickyFound:
		return []object{set(Affinity, 0)}
	case NATInput, NATPostrouting: // only if connections are counted, see newRuleset
		return []object{set(Connections, 0)}
	}
	return nil
}

// reads reports whether rules of the chain look into the set.
func (id ChainID) reads(set SetID) bool {
	if set.Kind == AllowedSources {
		return id.Kind == SourceCheck
	}
	if set.Kind >= baseSets {
		return slices.ContainsFunc(id.needs(), func(o object) bool { return o.isSet && o.set == set })
	}
	switch id.Kind {
	case FilterPrerouting:
		return set.Kind == Restricted || set.Kind == EndpointIPs
	case FilterOutputEarly:
		return set.Kind == Restricted
	case NATPrerouting, NATOutput:
		return set.Kind == Services || set.Kind == NodeIPs || set.Kind == NodePorts
	case RestorePrerouting, RestoreOutput:
		return set.Kind == ClusterIPs
	case FilterInput:
		return set.Kind == NoEndpointServices || set.Kind == NodeIPs || set.Kind == NoEndpointNodePorts
	case ServiceCheck:
		return set.Kind == NoEndpointServices || set.Kind == ClusterIPs || set.Kind == ServiceCIDRs
	case NATPostrouting:
		return set.Kind == Hairpin
	case Service:
		return !id.NodePort && set.Kind == ServiceIPs ||
			id.NodePort && (set.Kind == NodePortServiceIPs || set.Kind == NodePortServicePorts)
	case ExternalLocal:
		return !id.NodePort && set.Kind == LocalServices || id.NodePort && set.Kind == LocalNodePorts
	}
	return false
}

// choices is what a balancing chain picks from.
func (id ChainID) choices(
	chain func(ChainKind, bool, bool, method, uint32) object, set func(SetKind, uint32) object,
) []object {
	kind, many := Endpoint, EndpointsMany
	if id.Method == pickSticky {
		kind, many = StickyPick, StickyEndpointsMany
	}
	if id.N > MaxSlots {
		return []object{set(many, 0)}
	}
	slots := make([]object, id.N)
	for k := range id.N {
		slots[k] = chain(kind, id.Local, false, 0, k)
	}
	return slots
}
