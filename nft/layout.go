package nft

import (
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
	fieldPick // a random number below the count of endpoints
)

// length is the field's size in a key, padding included, in bytes.
func (f field) length(fam *family) uint32 {
	if f == fieldSource || f == fieldDestination {
		return fam.addrLen
	}
	return 4
}

func (f field) datatype(fam *family) datatype {
	switch f {
	case fieldProtocol:
		return typeProto
	case fieldPort:
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
	case fieldSource:
		return fam.name + " saddr"
	case fieldDestination:
		return fam.name + " daddr"
	case fieldProtocol:
		return "meta l4proto"
	case fieldPort:
		return "th dport"
	}
	return "numgen random mod 65536"
}

// content is what an element of a set carries beside its key.
type content uint8

const (
	contentNone     content = iota // a set: membership is all
	contentVerdict                 // a verdict map: where the packet goes
	contentEndpoint                // a data map: address and port to translate to
)

// layout is the shape of a kind of set.
type layout struct {
	key      []field
	content  content
	interval bool // keys are prefixes
	comments bool // elements name their Service
	// typeof makes the listing describe keys by expressions instead of types:
	// needed where a type has no size of its own.
	typeof bool
}

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
	if l.content == contentVerdict {
		return typeVerdict.number
	}
	return fam.addrType.number<<concatBits | typeService.number
}

// dataLen is the length of the elements' data in bytes; the kernel wants none
// for verdicts.
func (l *layout) dataLen(fam *family) uint32 {
	if l.content == contentEndpoint {
		return fam.addrLen + fieldPort.length(fam)
	}
	return 0
}

// dataText describes the elements' data in a set's declaration.
func (l *layout) dataText(fam *family) string {
	switch {
	case l.content == contentVerdict:
		return typeVerdict.name
	case l.typeof:
		return fieldDestination.text(fam) + " . " + fieldPort.text(fam)
	}
	return fam.addrType.name + " . " + typeService.name
}

// SetKind is one of the kinds of sets and maps of the rule set.
type SetKind uint8

// The kinds of sets, in the order in which they are declared.
const (
	Services SetKind = iota
	NoEndpointServices
	ClusterIPs
	Hairpin
	ServiceCIDRs
	Endpoints
	EndpointsMany
	setKinds
)

// frontendKey is what a packet to an address of a Service carries.
var frontendKey = []field{fieldDestination, fieldProtocol, fieldPort}

// layouts and names of the kinds. Only dispatch maps carry comments: there is
// one element a frontend, while a comment on every endpoint would make the rule
// set a quarter larger.
var setSchema = [setKinds]struct {
	name   string
	layout layout
}{
	Services:           {"services", layout{key: frontendKey, content: contentVerdict, comments: true}},
	NoEndpointServices: {"no-endpoint-services", layout{key: frontendKey, content: contentVerdict, comments: true}},
	ClusterIPs:         {"cluster-ips", layout{key: []field{fieldDestination}}},
	Hairpin:            {"hairpin", layout{key: []field{fieldSource, fieldDestination}}},
	ServiceCIDRs:       {"service-cidrs", layout{key: []field{fieldDestination}, interval: true}},
	Endpoints:          {"endpoints", layout{key: frontendKey, content: contentEndpoint}},
	EndpointsMany: {"endpoints-many", layout{
		key:     []field{fieldDestination, fieldProtocol, fieldPort, fieldPick},
		content: contentEndpoint, typeof: true,
	}},
}

// SetID refers to a set or map of the rule set.
type SetID struct {
	Family model.Family
	Kind   SetKind
	Slot   uint16 // for Endpoints, which slot
}

func (id SetID) layout() *layout { return &setSchema[id.Kind].layout }

func (id SetID) family() *family { return &families[id.Family] }

// Name is the set's name in the table.
func (id SetID) Name() string {
	if id.Kind == Endpoints {
		return slotNames[id.Slot].set
	}
	return setSchema[id.Kind].name
}
