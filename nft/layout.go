package nft

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

// A datatype is one of nft's data types: its number in nft programs (nftables
// include/datatype.h, enum datatypes), and its name. The kernel does not interpret the
// number.
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
	typeClassID = datatype{23, "classid"}
	typeVerdict = datatype{0xffffff00, "verdict"} // NFT_DATA_VERDICT
)

// concatBits is by how many bits nft shifts the number of each type of a concatenation.
const concatBits = 6

// A Field is one part of a key: a part of a packet, or a number made for it. In a key
// each field is padded to 4 bytes.
//
// Every field must be known to Len, datatype, text, load (statement.go) and writeField
// (text.go), and in package wire to encoder.key, decoder.key and fieldTypeof. All of
// them panic if a field is missing there, and tests call them with every field.
type Field uint8

// The fields.
const (
	FieldSource Field = iota
	FieldDestination
	FieldProtocol
	FieldPort
	FieldPick                // a number below the number of endpoints, which a rule makes
	FieldClient              // the source, cut to the length of a prefix ([Key].Source)
	FieldOriginalDestination // the destination before translation, and its port
	FieldOriginalPort
	FieldOriginalSource // the client before translation, and its port
	FieldOriginalSourcePort
	FieldNumber // the packet's priority, which has the number of an endpoint (endpointNumbers)
	fields
)

// Len returns the length of the field in a key, padding included, in bytes.
func (f Field) Len(family model.Family) uint32 {
	switch f {
	case FieldSource, FieldDestination, FieldClient, FieldOriginalDestination, FieldOriginalSource:
		return families[family].addrLen
	case FieldProtocol, FieldPort, FieldPick, FieldOriginalPort, FieldOriginalSourcePort, FieldNumber:
		return 4
	}
	panic(f.unknown())
}

// unknown is the message for a programmer who forgot a field.
func (f Field) unknown() string { return fmt.Sprintf("nft: unknown field %d of a key", f) }

func (f Field) datatype(fam *family) datatype {
	switch f {
	case FieldProtocol:
		return typeProto
	case FieldPort, FieldOriginalPort, FieldOriginalSourcePort:
		return typeService
	case FieldPick:
		// The type is integer, and the set's typeof describes it so. nft 0.9.8 cannot read
		// typeof and uses this number; a type without a size of its own would abort it. A
		// mark is a number of the same length and byte order.
		return typeMark
	case FieldNumber:
		return typeClassID
	case FieldSource, FieldDestination, FieldClient, FieldOriginalDestination, FieldOriginalSource:
		return fam.addrType
	}
	panic(f.unknown())
}

// text is the nft expression that reads the field from a packet.
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
	case FieldOriginalSource:
		return "ct original " + fam.name + " saddr"
	case FieldOriginalSourcePort:
		return "ct original proto-src"
	case FieldPick: // the number differs from rule to rule, see lookup
		return "numgen random mod 65536"
	case FieldNumber:
		return "meta priority"
	}
	panic(f.unknown())
}

// Content is the kind of value that the elements of a set have in addition to their key.
type Content uint8

// The contents of sets.
const (
	ContentNone     Content = iota // a set: no value
	ContentVerdict                 // a verdict map: where the packet goes
	ContentEndpoint                // a data map: address and port to translate to
	ContentAddress                 // a data map: an address
	ContentPort                    // a data map: a port
	ContentNumber                  // a data map: the number of an endpoint
)

// IsData reports whether elements have values that are not verdicts.
func (c Content) IsData() bool { return c != ContentNone && c != ContentVerdict }

// A Layout is the form of the elements of a kind of set.
type Layout struct {
	Key      []Field
	Content  Content
	Interval bool // each key is a prefix, [Key].Addr and Bits
	Comments bool // elements have the name of their Service port for comment
	// Typeof makes nft describe keys by expressions instead of types, because a type may
	// lack a size of its own.
	Typeof bool
	// limit is the greatest number of elements of a set that packets fill. Its elements
	// are not part of [Tables], and not compared.
	limit uint32
	// timeout means that elements of such a set expire: after the time given by the rule
	// that adds them, or else by the set.
	timeout bool
	expires time.Duration
	// Expressions are run by each look-up of an element.
	Expressions []expr.Any
	expressions string // their text
}

// Expires is the timeout of elements that are added without one; zero means that they do
// not expire.
func (l *Layout) Expires() time.Duration { return l.expires }

// dynamic reports whether packets fill the set.
func (l *Layout) dynamic() bool { return l.limit > 0 }

// dataFields are the fields that make up values other than verdicts.
var dataFields = [...][]Field{
	ContentNone:     nil,
	ContentVerdict:  nil,
	ContentEndpoint: {FieldDestination, FieldPort},
	ContentAddress:  {FieldDestination},
	ContentPort:     {FieldPort},
	ContentNumber:   {FieldNumber},
}

// KeyLen is the length of a key of the set, in bytes.
func (id SetID) KeyLen() uint32 { return lengthOf(id.Family, id.Layout().Key) }

// DataLen is the length of the data of the set's elements, in bytes; the kernel expects
// zero for verdicts.
func (id SetID) DataLen() uint32 {
	if c := id.Layout().Content; c != ContentPort {
		return lengthOf(id.Family, dataFields[c])
	}
	return portLen
}

// portLen is the length of a port that is not part of a concatenation.
const portLen = 2

func lengthOf(f model.Family, parts []Field) (n uint32) {
	for _, part := range parts {
		n += part.Len(f)
	}
	return n
}

// typeNumber is nft's number for the type of these fields.
func typeNumber(fam *family, parts []Field) (n uint32) {
	for _, part := range parts {
		n = n<<concatBits | part.datatype(fam).number
	}
	return n
}

// dataType is the number of the type of the elements' data.
func (l *Layout) dataType(fam *family) uint32 {
	if l.Content == ContentVerdict {
		return typeVerdict.number
	}
	return typeNumber(fam, dataFields[l.Content])
}

// typeText describes key or data in a set's declaration.
func (l *Layout) typeText(fam *family, parts []Field) string {
	return join(parts, func(f Field) string {
		if l.Typeof {
			return f.text(fam)
		}
		return f.datatype(fam).name
	})
}

// dataText describes the elements' data in a set's declaration.
func (l *Layout) dataText(fam *family) string {
	if l.Content == ContentVerdict {
		return typeVerdict.name
	}
	return l.typeText(fam, dataFields[l.Content])
}

// lookupText is the expression that builds the key from a packet.
func (l *Layout) lookupText(fam *family) string {
	return join(l.Key, func(f Field) string { return f.text(fam) })
}

func join(fields []Field, text func(Field) string) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = text(f)
	}
	return strings.Join(parts, " . ")
}
