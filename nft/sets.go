package nft

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// A SetKind is one of the kinds of sets and maps of the rule set.
type SetKind uint8

// The kinds of sets, in declaration order. Every table has the kinds up to
// SetEndpointIPs; the others exist while something refers to them, or they have elements.
const (
	SetServices             SetKind = iota // where connections to an address and port go
	SetLocalServices                       // where they go for clients from outside, under Local policy
	SetNodePorts                           // where connections to a port of the node go
	SetLocalNodePorts                      // as SetLocalServices
	SetNoEndpointServices                  // frontends that are rejected or dropped
	SetNoEndpointNodePorts                 // the same for node ports
	SetServiceIPs                          // the ClusterIP behind an external address
	SetNodePortServiceIPs                  // the ClusterIP behind a node port
	SetNodePortServicePorts                // the port behind a node port
	SetClusterIPs                          // all ClusterIPs; their unknown ports are rejected
	SetExternalIPs                         // load balancer and external addresses; their unknown ports do not loop
	SetNoPingIPs                           // the ones of both that do not answer pings, with [Config].PingTo
	SetNodeIPs                             // addresses that serve node ports
	SetHairpin                             // pods that may reach themselves
	SetServiceCIDRs                        // ranges of ClusterIPs; their unknown addresses are dropped
	SetEndpointIPs                         // addresses of TCP endpoints, with [Config].DropInvalid
	SetEndpoints                           // the endpoints in a slot; one map for each slot
	SetEndpointsMany                       // the endpoints of Services with more than MaxSlots
	SetStickyNumbers                       // the number of the endpoint in each slot, where clients are remembered
	SetStickyEndpoints                     // the endpoint of each number, there and where clients are retried
	SetAffinity                            // the number of the endpoint that a client has
	SetConnections                         // connections by destination and endpoint, with [Config].CountConnections
	SetUncounted                           // frontends whose connections are not counted for now
	SetHeld                                // frontends whose connections were held lately
	SetWaiting                             // the clients of these connections
	SetRestrictedNodePorts                 // as SetRestricted
	SetRefusals                            // frontends that retry; counts refusals of their endpoints
	SetRetried                             // the same; counts those that were retried
	SetRetrying                            // retries of connections
	SetAccepted                            // the number of an endpoint that has just accepted, by frontend
	SetRestricted                          // frontends that only SetAllowedSources may use
	SetAllowedSources                      // who may use restricted frontends; one set for each length of a prefix
	SetDeniedSources                       // who of these may not; the same
	setKinds
)

// baseSets is the number of kinds that every table has.
const baseSets = SetEndpoints

// Keys of several sets.
var (
	// frontendKey is a frontend with an address.
	frontendKey = []Field{FieldDestination, FieldProtocol, FieldPort}
	// nodePortKey is a node port, at any address of the node.
	nodePortKey = []Field{FieldProtocol, FieldPort}
	// pickKey is one of the endpoints of a frontend.
	pickKey = []Field{FieldDestination, FieldProtocol, FieldPort, FieldPick}
	// numberKey is one of the endpoints of a frontend, by its number.
	numberKey = []Field{FieldDestination, FieldProtocol, FieldPort, FieldNumber}
	// clientAndFrontend is a client, or the prefix it is in, before the frontend that it uses.
	clientAndFrontend = []Field{FieldClient, FieldDestination, FieldProtocol, FieldPort}
	// originalKey is a frontend before translation.
	originalKey = []Field{FieldOriginalDestination, FieldProtocol, FieldOriginalPort}
	// retryKey is a connection of TCP before translation, and a number.
	retryKey = []Field{
		FieldOriginalSource, FieldOriginalSourcePort, FieldOriginalDestination, FieldOriginalPort, FieldNumber,
	}
	// acceptedKey is a frontend of TCP before translation. nft 1.0.6 cannot load a map from addresses of
	// IPv6 to numbers with the address first.
	acceptedKey = []Field{FieldOriginalPort, FieldOriginalDestination}
	// countKey is a connection before and after translation.
	countKey = []Field{FieldOriginalDestination, FieldProtocol, FieldOriginalPort, FieldDestination, FieldPort}
)

// setSchema has the name and the layout of each kind. Only dispatch maps have comments:
// they have one element for each frontend, while a comment on every endpoint would make the
// rule set a quarter larger.
var setSchema = [setKinds]struct {
	name   string
	layout Layout
}{
	SetServices:             {"services", Layout{Key: frontendKey, Content: ContentVerdict, Comments: true}},
	SetLocalServices:        {"local-services", Layout{Key: frontendKey, Content: ContentVerdict}},
	SetNodePorts:            {"node-ports", Layout{Key: nodePortKey, Content: ContentVerdict, Comments: true}},
	SetLocalNodePorts:       {"local-node-ports", Layout{Key: nodePortKey, Content: ContentVerdict}},
	SetNoEndpointServices:   {"no-endpoint-services", Layout{Key: frontendKey, Content: ContentVerdict, Comments: true}},
	SetNoEndpointNodePorts:  {"no-endpoint-node-ports", Layout{Key: nodePortKey, Content: ContentVerdict, Comments: true}},
	SetServiceIPs:           {"service-ips", Layout{Key: frontendKey, Content: ContentAddress}},
	SetNodePortServiceIPs:   {"node-port-service-ips", Layout{Key: nodePortKey, Content: ContentAddress}},
	SetNodePortServicePorts: {"node-port-service-ports", Layout{Key: nodePortKey, Content: ContentPort}},
	SetClusterIPs:           {"cluster-ips", Layout{Key: []Field{FieldDestination}}},
	SetExternalIPs:          {"external-ips", Layout{Key: []Field{FieldDestination}}},
	SetNoPingIPs:            {"no-ping-ips", Layout{Key: []Field{FieldDestination}}},
	SetNodeIPs:              {"node-ips", Layout{Key: []Field{FieldDestination}}},
	SetHairpin:              {"hairpin", Layout{Key: []Field{FieldSource, FieldDestination}}},
	SetServiceCIDRs:         {"service-cidrs", Layout{Key: []Field{FieldDestination}, Interval: true}},
	SetEndpointIPs:          {"endpoint-ips", Layout{Key: []Field{FieldClient}}},
	SetEndpoints:            {"endpoints", Layout{Key: frontendKey, Content: ContentEndpoint}},
	SetEndpointsMany:        {"endpoints-many", Layout{Key: pickKey, Content: ContentEndpoint, Typeof: true}},
	SetStickyNumbers:        {"sticky-numbers", Layout{Key: pickKey, Content: ContentNumber, Typeof: true}},
	SetStickyEndpoints:      {"sticky-endpoints", Layout{Key: numberKey, Content: ContentEndpoint}},
	SetAffinity: {"affinity", Layout{
		Key: clientAndFrontend, Content: ContentNumber, limit: MaxClients,
		timeout: true,
	}},
	SetConnections: {"connections", Layout{Key: countKey, limit: MaxConnectionCounts}},
	SetUncounted: {"uncounted", Layout{
		Key: originalKey, limit: MaxConnectionCounts, timeout: true, expires: UncountedTime,
	}},
	SetHeld:    {"held", Layout{Key: frontendKey, limit: MaxHeld, timeout: true, expires: HeldTime}},
	SetWaiting: {"waiting", Layout{Key: clientAndFrontend, limit: MaxHeld, timeout: true, expires: WaitingTime}},

	SetRefusals: {"refusals", Layout{
		Key: originalKey, Expressions: []expr.Any{&expr.Counter{}, retryLimit},
		expressions: fmt.Sprintf("counter limit rate %d/second burst %d packets", retryLimit.Rate, retryLimit.Burst),
	}},
	SetRetried:  {"retried", Layout{Key: originalKey, Expressions: []expr.Any{&expr.Counter{}}, expressions: "counter"}},
	SetRetrying: {"retrying", Layout{Key: retryKey, limit: MaxRetrying, timeout: true, expires: retryTime}},
	SetAccepted: {"accepted", Layout{
		Key: acceptedKey, Content: ContentNumber, limit: MaxAccepted, timeout: true, expires: acceptedTime,
	}},

	SetRestricted:          {"restricted", Layout{Key: frontendKey}},
	SetRestrictedNodePorts: {"restricted-node-ports", Layout{Key: nodePortKey}},
	SetAllowedSources:      {"allowed-sources", Layout{Key: clientAndFrontend}},
	SetDeniedSources:       {"denied-sources", Layout{Key: clientAndFrontend}},
}

// A SetID refers to a set or map of the rule set.
type SetID struct {
	Family model.Family
	Kind   SetKind
	Local  bool   // it has endpoints of this node only
	Slot   uint16 // of SetEndpoints; of sources, the length of the prefixes
}

// Layout returns the form of the set's elements.
func (id SetID) Layout() *Layout { return &setSchema[id.Kind].layout }

func (id SetID) family() *family { return &families[id.Family] }

// slotted reports whether there is one set of the kind for each slot.
func (k SetKind) slotted() bool {
	return k == SetEndpoints || k.hasSources()
}

// ofAddresses reports whether a set of the kind has one element for all frontends of an address.
// These kinds follow each other, from SetClusterIPs on.
func (k SetKind) ofAddresses() bool { return SetClusterIPs <= k && k <= SetNoPingIPs }

// hasSources reports whether the elements of a set of the kind are sources.
func (k SetKind) hasSources() bool { return k == SetAllowedSources || k == SetDeniedSources }

// hasEndpoints reports whether the elements of a set of the kind are the endpoints of pools,
// or their numbers.
func (k SetKind) hasEndpoints() bool { return SetEndpoints <= k && k <= SetStickyEndpoints }

// exists reports whether there may be a set of that slot or length.
func (id SetID) exists() bool {
	if id.Kind.hasSources() {
		return !id.Local && int(id.Slot) <= id.family().bits()
	}
	return id.Slot < MaxSlots
}

// IsDynamic reports whether packets or followers fill the set. Its elements are not part of [Tables],
// and not compared.
func (id SetID) IsDynamic() bool { return id.Layout().dynamic() }

// Name returns the set's name in the table.
func (id SetID) Name() string {
	name := setSchema[id.Kind].name
	if id.Kind < baseSets {
		return name
	}
	if id.Local {
		name = localPrefix + name
	}
	if id.Kind.slotted() {
		name += "-" + strconv.Itoa(int(id.Slot))
	}
	return name
}

// SetNamed returns the set of the rule set that has the name, if any.
func SetNamed(f model.Family, name string) (SetID, bool) {
	for kind := range baseSets {
		if setSchema[kind].name == name {
			return SetID{Family: f, Kind: kind}, true
		}
	}
	rest, local := strings.CutPrefix(name, localPrefix)
	for kind := baseSets; kind < setKinds; kind++ {
		id := SetID{Family: f, Kind: kind, Local: local}
		if kind.slotted() {
			_, number, _ := strings.Cut(rest, setSchema[kind].name+"-")
			n, err := strconv.ParseUint(number, 10, 16)
			if id.Slot = uint16(n); err != nil || !id.exists() {
				continue
			}
		}
		if id.Name() == name {
			return id, true
		}
	}
	return SetID{}, false
}

// A SetShape is how a set is declared.
type SetShape struct {
	KeyType, KeyLen, DataType, DataLen uint32
	Flags                              uint32
	Size                               uint32 // the greatest number of elements; zero means no limit
}

// Shape returns how the set is declared, for size elements.
func (id SetID) Shape(size uint32) SetShape {
	l, fam := id.Layout(), id.family()
	s := SetShape{KeyType: typeNumber(fam, l.Key), KeyLen: id.KeyLen(), Size: size}
	if l.Interval {
		s.Flags |= unix.NFT_SET_INTERVAL
		s.Size = 0
	}
	if l.dynamic() {
		s.Flags |= unix.NFT_SET_EVAL
		s.Size = l.limit
	}
	if l.timeout {
		s.Flags |= unix.NFT_SET_TIMEOUT
	}
	if l.Expressions != nil {
		s.Flags |= setHasExpressions
	}
	if l.Content != ContentNone {
		s.Flags |= unix.NFT_SET_MAP
		s.DataType, s.DataLen = l.dataType(fam), id.DataLen()
	}
	return s
}

// setHasExpressions is NFT_SET_EXPR.
const setHasExpressions = 0x100

// MaxClients is the greatest number of clients in each affinity map. Without a size the
// kernel would limit it to 65,535. Sizes that are not constant are in Ruleset.sizesFor.
const MaxClients = 1 << 18

// Fits reports whether a set of that shape can have the elements of the given set,
// whatever its size.
func (s SetShape) Fits(id SetID) bool {
	return s == id.Shape(s.Size)
}
