package nft

import (
	"strconv"
	"strings"

	"kube-vmap/model"
)

// datatype is one of nft's data types: its number as nft's own programs read it
// from the kernel (src: nftables include/datatype.h, enum datatypes) and its
// name. The kernel itself does not interpret the number.
type datatype struct {
	number uint32
	name   string
}

var (
	typeInteger = datatype{4, "integer"}
	typeIPv4    = datatype{7, "ipv4_addr"}
	typeIPv6    = datatype{8, "ipv6_addr"}
	typeProto   = datatype{12, "inet_proto"}
	typeService = datatype{13, "inet_service"}
	typeMark    = datatype{19, "mark"}
	typeVerdict = datatype{0xffffff00, "verdict"} // NFT_DATA_VERDICT
)

// concatBits is how far nft shifts the number of each type of a concatenation.
const concatBits = 6

// Field is one part of a packet, or a number drawn for it, that a key is made
// of. In a key each field is padded to 4 bytes.
type Field uint8

const (
	FieldSource Field = iota
	FieldDestination
	FieldProtocol
	FieldPort
	FieldPick                // a random number below the count of endpoints
	FieldClient              // the source, or the prefix it is in, beside a destination
	FieldOriginalDestination // the destination before it was translated, and its port
	FieldOriginalPort
)

// Len is the field's size in a key, padding included, in bytes.
func (f Field) Len(family model.Family) uint32 {
	switch f {
	case FieldSource, FieldDestination, FieldClient, FieldOriginalDestination:
		return families[family].addrLen
	}
	return 4
}

func (f Field) datatype(fam *family) datatype {
	switch f {
	case FieldProtocol:
		return typeProto
	case FieldPort, FieldOriginalPort:
		return typeService
	case FieldPick:
		// In truth an integer, which the set's typeof says. That nft 0.9.8 cannot
		// read, and falls back on this number; a type without a size of its own
		// aborts it. A mark is a number of the same length and byte order.
		return typeMark
	}
	return fam.addrType
}

// Text is the nft expression that reads the field from a packet.
func (f Field) text(fam *family) string {
	switch f {
	case FieldSource, FieldClient:
		return fam.name + " saddr"
	case FieldDestination:
		return fam.name + " daddr"
	case FieldProtocol:
		return "meta l4proto"
	case FieldPort:
		return "th dport"
	case FieldOriginalDestination:
		return "ct original " + fam.name + " daddr"
	case FieldOriginalPort:
		return "ct original proto-dst"
	}
	return "numgen random mod 65536"
}

// Content is what an element of a set carries beside its key.
type Content uint8

const (
	ContentNone     Content = iota // a set: membership is all
	ContentVerdict                 // a verdict map: where the packet goes
	ContentEndpoint                // a data map: address and port to translate to
	ContentAddress                 // a data map: an address
	ContentPort                    // a data map: a port
)

// IsData reports whether elements carry values, not verdicts.
func (c Content) IsData() bool { return c != ContentNone && c != ContentVerdict }

// Layout is the shape of a kind of set.
type Layout struct {
	Key      []Field
	Content  Content
	Interval bool // keys are prefixes
	Comments bool // elements name their Service
	// Typeof makes the listing describe keys by expressions instead of types:
	// needed where a type has no size of its own.
	Typeof bool
	// limit is of sets that packets fill: how many elements they take. What they
	// hold is not ours to say.
	limit uint32
	// timeout lets elements of such a set end by themselves.
	timeout bool
}

// dynamic reports whether packets fill the set.
func (l *Layout) dynamic() bool { return l.limit > 0 }

// KeyLen is the length of a key of the set, in bytes.
func (id SetID) KeyLen() uint32 {
	var n uint32
	for _, f := range id.Layout().Key {
		n += f.Len(id.Family)
	}
	return n
}

// keyType is the number under which nft finds the key's type.
func (l *Layout) keyType(fam *family) uint32 {
	var n uint32
	for _, f := range l.Key {
		n = n<<concatBits | f.datatype(fam).number
	}
	return n
}

// keyText describes the key in a set's declaration.
func (l *Layout) keyText(fam *family) string {
	return l.join(func(f Field) string {
		if l.Typeof {
			return f.text(fam)
		}
		return f.datatype(fam).name
	})
}

// lookupText is the expression that builds the key from a packet.
func (l *Layout) lookupText(fam *family) string {
	return l.join(func(f Field) string { return f.text(fam) })
}

func (l *Layout) join(text func(Field) string) string {
	parts := make([]string, len(l.Key))
	for i, f := range l.Key {
		parts[i] = text(f)
	}
	return strings.Join(parts, " . ")
}

// dataType is the number of the type of the elements' data.
func (l *Layout) dataType(fam *family) uint32 {
	switch l.Content {
	case ContentVerdict:
		return typeVerdict.number
	case ContentAddress:
		return fam.addrType.number
	case ContentPort:
		return typeService.number
	}
	return fam.addrType.number<<concatBits | typeService.number
}

// DataLen is the length of the data of the set's elements, in bytes; the kernel wants none
// for verdicts.
func (id SetID) DataLen() uint32 {
	switch id.Layout().Content {
	case ContentEndpoint:
		return id.family().addrLen + FieldPort.Len(id.Family)
	case ContentAddress:
		return id.family().addrLen
	case ContentPort:
		return portLen
	}
	return 0
}

// portLen is the length of a port that stands alone.
const portLen = 2

// dataText describes the elements' data in a set's declaration.
func (l *Layout) dataText(fam *family) string {
	switch {
	case l.Content == ContentVerdict:
		return typeVerdict.name
	case l.Content == ContentAddress:
		return fam.addrType.name
	case l.Content == ContentPort:
		return typeService.name
	case l.Typeof:
		return FieldDestination.text(fam) + " . " + FieldPort.text(fam)
	}
	return fam.addrType.name + " . " + typeService.name
}

// SetKind is one of the kinds of sets and maps of the rule set.
type SetKind uint8

// The kinds of sets, in the order in which they are declared. Those up to
// EndpointIPs every table has; the others come with use.
const (
	SetServices             SetKind = iota // where connections to an address and port go
	SetLocalServices                       // the same for clients from outside, where the policy is Local
	SetNodePorts                           // where connections to a port of the node go
	SetLocalNodePorts                      // as LocalServices
	SetNoEndpointServices                  // what is refused or dropped
	SetNoEndpointNodePorts                 //
	SetServiceIPs                          // the ClusterIP behind an external address
	SetNodePortServiceIPs                  // the ClusterIP behind a node port
	SetNodePortServicePorts                // and the port there
	SetRestricted                          // addresses that only AllowedSources may use
	SetClusterIPs                          //
	SetNodeIPs                             // addresses that serve node ports
	SetHairpin                             // pods that may reach themselves
	SetServiceCIDRs                        //
	SetEndpointIPs                         // of TCP, with [Config].DropInvalid
	SetEndpoints                           // one for each slot
	SetEndpointsMany                       // of Services with more endpoints than slots
	SetStickyEndpoints                     // as Endpoints, where clients are remembered
	SetStickyEndpointsMany                 //
	SetAffinity                            // which client has which endpoint
	SetConnections                         // how many asked for what and got which endpoint, with [Config].Count
	SetAllowedSources                      // who may use Restricted addresses, one for each length of a prefix
	setKinds
)

// baseSets are the sets every table has.
const baseSets = SetEndpoints

// Keys.
var (
	// frontendKey is what a packet to an address of a Service carries.
	frontendKey = []Field{FieldDestination, FieldProtocol, FieldPort}
	// nodePortKey is what a packet to a node port carries, whichever address of
	// the node it came to.
	nodePortKey = []Field{FieldProtocol, FieldPort}
	pickKey     = []Field{FieldDestination, FieldProtocol, FieldPort, FieldPick}
	clientKey   = []Field{FieldClient, FieldDestination, FieldProtocol, FieldPort}
	// countKey is what a connection has that was translated.
	countKey = []Field{FieldOriginalDestination, FieldProtocol, FieldOriginalPort, FieldDestination, FieldPort}
)

// layouts and names of the kinds. Only dispatch maps carry comments: there is
// one element a frontend, while a comment on every endpoint would make the rule
// set a quarter larger.
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
	SetRestricted:           {"restricted", Layout{Key: frontendKey}},
	SetClusterIPs:           {"cluster-ips", Layout{Key: []Field{FieldDestination}}},
	SetNodeIPs:              {"node-ips", Layout{Key: []Field{FieldDestination}}},
	SetHairpin:              {"hairpin", Layout{Key: []Field{FieldSource, FieldDestination}}},
	SetServiceCIDRs:         {"service-cidrs", Layout{Key: []Field{FieldDestination}, Interval: true}},
	SetEndpointIPs:          {"endpoint-ips", Layout{Key: []Field{FieldClient}}},
	SetEndpoints:            {"endpoints", Layout{Key: frontendKey, Content: ContentEndpoint}},
	SetEndpointsMany:        {"endpoints-many", Layout{Key: pickKey, Content: ContentEndpoint, Typeof: true}},
	SetStickyEndpoints:      {"sticky-endpoints", Layout{Key: frontendKey, Content: ContentVerdict}},
	SetStickyEndpointsMany:  {"sticky-endpoints-many", Layout{Key: pickKey, Content: ContentVerdict, Typeof: true}},
	SetAffinity:             {"affinity", Layout{Key: clientKey, Content: ContentEndpoint, limit: affinitySize, timeout: true}},
	SetConnections:          {"connections", Layout{Key: countKey, limit: MaxConnectionCounts}},
	SetAllowedSources:       {"allowed-sources", Layout{Key: clientKey}},
}

// SetID refers to a set or map of the rule set.
type SetID struct {
	Family model.Family
	Kind   SetKind
	Local  bool   // it holds endpoints of this node only
	Slot   uint16 // of Endpoints and StickyEndpoints; of AllowedSources, the length of the prefixes
}

func (id SetID) Layout() *Layout { return &setSchema[id.Kind].layout }

func (id SetID) family() *family { return &families[id.Family] }

// slotted reports whether there is one set of the kind for each slot.
func (k SetKind) slotted() bool {
	return k == SetEndpoints || k == SetStickyEndpoints || k == SetAllowedSources
}

// exists reports whether there may be a set of that slot.
func (id SetID) exists() bool {
	if id.Kind == SetAllowedSources {
		return !id.Local && id.Slot > 0 && int(id.Slot) <= id.family().bits()
	}
	return id.Slot < MaxSlots
}

// IsDynamic reports whether packets fill the set, so that what it holds is not known
// and not compared.
func (id SetID) IsDynamic() bool { return id.Layout().dynamic() }

// Name is the set's name in the table.
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

// SetNamed finds the set of the rule set that has the name.
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
