package kerneltest

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// message is one netlink message of a batch.
type message struct {
	kind     uint16 // NFT_MSG_*
	sequence uint32
	family   model.Family
	bytes    []byte
}

// Lengths of the headers before a message's attributes, and of an attribute's
// own.
const (
	netlinkLen   = unix.SizeofNlMsghdr
	headerLen    = netlinkLen + 4 // struct nfgenmsg
	attributeLen = unix.SizeofNlAttr
)

// messages splits a batch and leaves out its begin and end.
func messages(b []byte) []message {
	var out []message
	for len(b) > 0 {
		m := message{
			kind:     binary.NativeEndian.Uint16(b[4:]),
			sequence: binary.NativeEndian.Uint32(b[8:]),
			bytes:    b[:binary.NativeEndian.Uint32(b)],
		}
		b = b[len(m.bytes):]
		if m.kind>>8 != unix.NFNL_SUBSYS_NFTABLES {
			continue
		}
		m.kind &= 0xff
		if m.bytes[netlinkLen] == unix.NFPROTO_IPV6 {
			m.family = model.IPv6
		}
		out = append(out, m)
	}
	return out
}

// data is what follows the netlink header.
func (m message) data() []byte { return m.bytes[netlinkLen:] }

// attributes are those of the message itself.
func (m message) attributes() attributes { return parse(m.bytes[headerLen:], headerLen) }

// attribute is a value and where it stands in its message.
type attribute struct {
	kind   uint16
	offset int
	value  []byte
}

// attributes are those of a message, or within one of them.
type attributes []attribute

// parse reads the attributes that begin at a place of the message. They were
// written by our own encoder and are not garbled.
func parse(b []byte, at int) attributes {
	var out attributes
	for len(b) >= attributeLen {
		n := int(binary.NativeEndian.Uint16(b))
		kind := binary.NativeEndian.Uint16(b[2:]) &^ unix.NLA_F_NESTED
		out = append(out, attribute{kind, at, b[attributeLen:n]})
		n = min((n+3)&^3, len(b))
		b, at = b[n:], at+n
	}
	return out
}

// get returns the attribute of a kind; without value if there is none.
func (a attributes) get(kind uint16) attribute {
	for _, x := range a {
		if x.kind == kind {
			return x
		}
	}
	return attribute{}
}

// nested are the attributes within one.
func (a attribute) nested() attributes { return parse(a.value, a.offset+attributeLen) }

// text is the value as a string.
func (a attribute) text() string { return strings.TrimRight(string(a.value), "\x00") }

// number is the value as a number; zero if there is none.
func (a attribute) number() uint32 {
	if len(a.value) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(a.value)
}

// chain is the chain that data with a verdict leads to; without value if it
// leads to none.
func (a attribute) target() attribute {
	return a.nested().get(unix.NFTA_DATA_VERDICT).nested().get(unix.NFTA_VERDICT_CHAIN)
}
