package kerneltest

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

// A message is a netlink message of a batch.
type message struct {
	kind     uint16 // NFT_MSG_*
	sequence uint32
	family   model.Family
	data     []byte // what follows the netlink header
}

// tableAttribute is the kind of the attribute that names the table, in every message of
// nf_tables.
const tableAttribute = unix.NFTA_TABLE_NAME

// messages returns the messages of a batch about our tables: without its begin and end, and
// without changes of what belongs to other programs.
func messages(b []byte) []message {
	var out []message
	var d attr.Decoder
	for h, body := range d.Messages(b) {
		if h.Type>>8 != unix.NFNL_SUBSYS_NFTABLES {
			continue
		}
		m := message{kind: h.Type & 0xff, sequence: h.Sequence, data: body}
		if body[0] == unix.NFPROTO_IPV6 {
			m.family = model.IPv6
		}
		if m.attributes().get(tableAttribute).text() != nft.TableName {
			continue
		}
		out = append(out, m)
	}
	return out
}

// attributes returns the attributes of the message itself.
func (m message) attributes() attributes {
	return parse(m.data[attr.BodyHeaderLen:], attr.MessageHeaderLen+attr.BodyHeaderLen)
}

// An attribute is a value and its offset in the message.
type attribute struct {
	kind   uint16
	offset int
	value  []byte
}

// attributes are the attributes of a message, or nested in one of them.
type attributes []attribute

// parse decodes the attributes that begin at an offset of the message. Package attr is not
// used because refusals need the offsets. The attributes were written by our own encoder
// and are well-formed.
func parse(b []byte, at int) attributes {
	var out attributes
	for len(b) >= attr.HeaderLen {
		n := int(binary.NativeEndian.Uint16(b))
		kind := binary.NativeEndian.Uint16(b[2:]) &^ unix.NLA_F_NESTED
		out = append(out, attribute{kind, at, b[attr.HeaderLen:n]})
		n = min((n+3)&^3, len(b))
		b, at = b[n:], at+n
	}
	return out
}

// get returns the attribute of a kind, without value if there is none.
func (a attributes) get(kind uint16) attribute {
	for _, x := range a {
		if x.kind == kind {
			return x
		}
	}
	return attribute{}
}

// nested returns the attributes within an attribute.
func (a attribute) nested() attributes { return parse(a.value, a.offset+attr.HeaderLen) }

// text returns the value as a string.
func (a attribute) text() string { return attr.String(a.value) }

// number returns the value as a number; zero if there is none.
func (a attribute) number() uint32 {
	if len(a.value) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(a.value)
}

// target returns the chain that a verdict leads to, without value if there is none.
func (a attribute) target() attribute {
	return a.nested().get(unix.NFTA_DATA_VERDICT).nested().get(unix.NFTA_VERDICT_CHAIN)
}
