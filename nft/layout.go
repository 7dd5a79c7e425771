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

// field is one part of a packet, or a number drawn for it, that a key is made
// of. In a key each field is padded to 4 bytes.
type field uint8

const (
	fieldSource field = iota
	fieldDestination
	fieldProtocol
	fieldPort
	fieldPick                // a random number below the count of endpoints
	fieldClient              // the source, or the prefix it is in, beside a destination
	fieldOriginalDestination // the destination before it was translated, and its port
	fieldOriginalPort
)

// length is the field's size in a key, padding included, in bytes.
func (f field) length(fam *family) uint32 {
	switch f {
	case fieldSource, fieldDestination, fieldClient, fieldOriginalDestination:
		return fam.addrLen
	}
	return 4
}

func (f field) datatype(fam *family) datatype {
	switch f {
	case fieldProtocol:
		return typeProto
	case fieldPort, fieldOriginalPort:
		return typeService
	case fieldPick:
		// In truth an integer, which the set's typeof says. That nft 0.9.8 cannot
		// read, and falls back on this number; a type without a size of its own
		// aborts it. A mark is a number of the same length and byte order.
		return typeMark
	}
	return fam.addrType
}

// text is the nft expression that reads the field from a packet.
func (f field) text(fam *family) string {
	switch f {
	case fieldSource, fieldClient:
		return fam.name + " saddr"
	case fieldDestination:
		return fam.name + " daddr"
	case fieldProtocol:
		return "meta l4proto"
	case fieldPort:
		return "th dport"
	case fieldOriginalDestination:
		return "ct original " + fam.name + " daddr"
	case fieldOriginalPort:
		return "ct original proto-dst"
	}
	return "numgen random mod 65536"
}

// content is what an element of a set carries beside its key.
type content uint8

const (
	contentNone     content = iota // a set: membership is all
	contentVerdict                 // a verdict map: where the packet goes
	contentEndpoint                // a data map: address and port to translate to
	contentAddress                 // a data map: an address
	contentPort                    // a data map: a port
)

// isData reports whether elements carry values, not verdicts.
func (c content) isData() bool { return c != contentNone && c != contentVerdict }

// layout is the shape of a kind of set.
type layout struct {
	key      []field
	content  content
	interval bool // keys are prefixes
	comments bool // elements name their Service
	// typeof makes the listing describe keys by expressions instead of types:
	// needed where a type has no size of its own.
	typeof bool
	// limit is of sets that packets fill: how many elements they take. What they
	// hold is not ours to say.
	limit uint32
	// timeout lets elements of such a set end by themselves.
	timeout bool
}

// dynamic reports whether packets fill the set.
func (l *layout) dynamic() bool { return l.limit > 0 }

// keyLen is the length of a key in bytes.
func (l *layout) keyLen(fam *family) uint32 {
	var n uint32
	for _, f := range l.key {
		n += f.length(fam)
	}
	return n
}

// keyType is the number under which nft finds the key's type.
func (l *layout) keyType(fam *family) uint32 {
	var n uint32
	for _, f := range l.key {
		n = n<<concatBits | f.datatype(fam).number
	}
	return n
}

// keyText describes the key in a set's declaration.
func (l *layout) keyText(fam *family) string {
	return l.join(func(f field) string {
		if l.typeof {
			return f.text(fam)
		}
		return f.datatype(fam).name
	})
}

// lookupText is the expression that builds the key from a packet.
func (l *layout) lookupText(fam *family) string {
	return l.join(func(f field) string { return f.text(fam) })
}

func (l *layout) join(text func(field) string) string {
	parts := make([]string, len(l.key))
	for i, f := range l.key {
		parts[i] = text(f)
	}
	return strings.Join(parts, " . ")
}

// dataType is the number of the type of the elements' data.
func (l *layout) dataType(fam *family) uint32 {
	switch l.content {
	case contentVerdict:
		return typeVerdict.number
	case contentAddress:
		return fam.addrType.number
	case contentPort:
		return typeService.number
	}
	return fam.addrType.number<<concatBits | typeService.number
}

// dataLen is the length of the elements' data in bytes; the kernel wants none
// for verdicts.
func (l *layout) dataLen(fam *family) uint32 {
	switch l.content {
	case contentEndpoint:
		return fam.addrLen + fieldPort.length(fam)
	case contentAddress:
		return fam.addrLen
	case contentPort:
		return portLen
	}
	return 0
}

// portLen is the length of a port that stands alone.
const portLen = 2

// dataText describes the elements' data in a set's declaration.
func (l *layout) dataText(fam *family) string {
	switch {
	case l.content == contentVerdict:
		return typeVerdict.name
	case l.content == contentAddress:
		return fam.addrType.name
	case l.content == contentPort:
		return typeService.name
	case l.typeof:
		return fieldDestination.text(fam) + " . " + fieldPort.text(fam)
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
	frontendKey = []field{fieldDestination, fieldProtocol, fieldPort}
	// nodePortKey is what a packet to a node port carries, whichever address of
	// the node it came to.
	nodePortKey = []field{fieldProtocol, fieldPort}
	pickKey     = []field{fieldDestination, fieldProtocol, fieldPort, fieldPick}
	clientKey   = []field{fieldClient, fieldDestination, fieldProtocol, fieldPort}
	// countKey is what a connection has that was translated.
	countKey = []field{fieldOriginalDestination, fieldProtocol, fieldOriginalPort, fieldDestination, fieldPort}
)

// layouts and names of the kinds. Only dispatch maps carry comments: there is
// one element a frontend, while a comment on every endpoint would make the rule
// set a quarter larger.
var setSchema = [setKinds]struct {
	name   string
	layout layout
}{
	SetServices:             {"services", layout{key: frontendKey, content: contentVerdict, comments: true}},
	SetLocalServices:        {"local-services", layout{key: frontendKey, content: contentVerdict}},
	SetNodePorts:            {"node-ports", layout{key: nodePortKey, content: contentVerdict, comments: true}},
	SetLocalNodePorts:       {"local-node-ports", layout{key: nodePortKey, content: contentVerdict}},
	SetNoEndpointServices:   {"no-endpoint-services", layout{key: frontendKey, content: contentVerdict, comments: true}},
	SetNoEndpointNodePorts:  {"no-endpoint-node-ports", layout{key: nodePortKey, content: contentVerdict, comments: true}},
	SetServiceIPs:           {"service-ips", layout{key: frontendKey, content: contentAddress}},
	SetNodePortServiceIPs:   {"node-port-service-ips", layout{key: nodePortKey, content: contentAddress}},
	SetNodePortServicePorts: {"node-port-service-ports", layout{key: nodePortKey, content: contentPort}},
	SetRestricted:           {"restricted", layout{key: frontendKey}},
	SetClusterIPs:           {"cluster-ips", layout{key: []field{fieldDestination}}},
	SetNodeIPs:              {"node-ips", layout{key: []field{fieldDestination}}},
	SetHairpin:              {"hairpin", layout{key: []field{fieldSource, fieldDestination}}},
	SetServiceCIDRs:         {"service-cidrs", layout{key: []field{fieldDestination}, interval: true}},
	SetEndpointIPs:          {"endpoint-ips", layout{key: []field{fieldClient}}},
	SetEndpoints:            {"endpoints", layout{key: frontendKey, content: contentEndpoint}},
	SetEndpointsMany:        {"endpoints-many", layout{key: pickKey, content: contentEndpoint, typeof: true}},
	SetStickyEndpoints:      {"sticky-endpoints", layout{key: frontendKey, content: contentVerdict}},
	SetStickyEndpointsMany:  {"sticky-endpoints-many", layout{key: pickKey, content: contentVerdict, typeof: true}},
	SetAffinity:             {"affinity", layout{key: clientKey, content: contentEndpoint, limit: affinitySize, timeout: true}},
	SetConnections:          {"connections", layout{key: countKey, limit: MaxConnectionCounts}},
	SetAllowedSources:       {"allowed-sources", layout{key: clientKey}},
}

// SetID refers to a set or map of the rule set.
type SetID struct {
	Family model.Family
	Kind   SetKind
	Local  bool   // it holds endpoints of this node only
	Slot   uint16 // of Endpoints and StickyEndpoints; of AllowedSources, the length of the prefixes
}

func (id SetID) layout() *layout { return &setSchema[id.Kind].layout }

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
func (id SetID) IsDynamic() bool { return id.layout().dynamic() }

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
