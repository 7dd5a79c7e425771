// Package attr encodes and decodes netlink messages and their attributes. It is pure:
// bytes in, bytes out. The sockets are in kube-vmap/nft/kernel.
//
// A netlink message is a header and a list of attributes; an attribute is a length, a
// kind and a value, padded to 4 bytes, and its value may again be such a list:
//
//	| length 4 | type 2 | flags 2 | sequence 4 | port 4 |       netlink header
//	| family 1 | version 1 | resource 2 |                       netfilter header
//	| length 2 | kind 2 | value ... | padding |                 attribute
//	| length 2 | kind 2 | | length 2 | kind 2 | value ... |     nested attribute
//
// An [Encoder] appends to one buffer:
//
//	var e attr.Encoder
//	e.OpenMessage(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWCHAIN, unix.NLM_F_REQUEST)
//	e.NetfilterHeader(unix.NFPROTO_IPV4, 0)
//	e.String(unix.NFTA_CHAIN_TABLE, "kube-vmap")
//	hook := e.OpenNested(unix.NFTA_CHAIN_HOOK)
//	e.Uint32(unix.NFTA_HOOK_HOOKNUM, unix.NF_INET_PRE_ROUTING)
//	e.Close(hook)
//	e.CloseMessage()
//
// Without OpenMessage and CloseMessage the buffer is the body of a message, for
// libraries that write the netlink header themselves. A [Decoder] ranges over
// attributes in place and keeps the first error:
//
//	var d attr.Decoder
//	for kind, value := range d.Attributes(d.Body(message)) {
//		switch kind {
//		case unix.NFTA_CHAIN_NAME:
//			name = attr.String(value)
//		case unix.NFTA_CHAIN_HANDLE:
//			handle = d.Uint64(value)
//		}
//	}
//	return d.Err()
//
// The project has a codec of its own, and one only, for three reasons. A first load is
// a batch of 100,000 elements and more, with about ten attributes each: the encoders of
// the netlink libraries allocate for every one of them, this one does not allocate at
// all once its buffer is large enough. The kernel names the message that it refuses by
// its sequence number and a byte offset, so whoever encodes must know where in the
// buffer each message begins (see kube-vmap/nft/wire). And packages other than
// nft/kernel do not import a library that can open a socket.
//
// Numbers are in network byte order, as in all of netfilter; the methods whose names
// begin with Native are for the subsystems that use the byte order of the machine
// (generic netlink, rtnetlink).
package attr

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Sizes of headers, in bytes (include/uapi/linux/netlink.h, nfnetlink.h).
const (
	MessageHeaderLen = unix.SizeofNlMsghdr
	HeaderLen        = unix.SizeofNlAttr
	// BodyHeaderLen is the length of struct nfgenmsg, and of struct genlmsghdr.
	BodyHeaderLen = 4
)

// MaxLen is the length of the longest attribute, header included: it is a 16-bit number.
const MaxLen = 1<<16 - 1

// An Encoder appends messages and attributes to one buffer. Lengths are filled in when a
// message or attribute is closed, so nothing is copied. The zero value is ready for use.
type Encoder struct {
	// Bytes is the buffer. Callers may append the value of an open attribute to it.
	Bytes []byte
	// Messages is the number of messages so far, and the sequence number of the next.
	Messages int

	message int // where the open message begins
	err     error
}

// Err returns the first error: an attribute that is too long.
func (e *Encoder) Err() error { return e.err }

// OpenMessage begins a message with a netlink header. Messages are numbered from zero.
func (e *Encoder) OpenMessage(kind, flags uint16) {
	e.message = len(e.Bytes)
	b := binary.NativeEndian.AppendUint32(e.Bytes, 0) // length, see CloseMessage
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, uint32(e.Messages))
	e.Bytes = binary.NativeEndian.AppendUint32(b, 0) // the kernel knows the port
	e.Messages++
}

// CloseMessage fills in the length of the open message.
func (e *Encoder) CloseMessage() {
	binary.NativeEndian.PutUint32(e.Bytes[e.message:], uint32(len(e.Bytes)-e.message))
}

// NetfilterHeader appends the header that the body of every message of netfilter begins
// with (struct nfgenmsg).
func (e *Encoder) NetfilterHeader(family uint8, resource uint16) {
	e.Bytes = binary.BigEndian.AppendUint16(append(e.Bytes, family, unix.NFNETLINK_V0), resource)
}

// Open begins an attribute and returns where, for [Encoder.Close].
func (e *Encoder) Open(kind uint16) int {
	at := len(e.Bytes)
	e.Bytes = binary.NativeEndian.AppendUint16(append(e.Bytes, 0, 0), kind)
	return at
}

// OpenNested is [Encoder.Open] for an attribute that holds others.
func (e *Encoder) OpenNested(kind uint16) int { return e.Open(kind | unix.NLA_F_NESTED) }

// Close fills in the length of the attribute that begins at the given place, and pads it.
func (e *Encoder) Close(at int) {
	n := len(e.Bytes) - at
	if n > MaxLen {
		e.err = cmp.Or(e.err, tooLong(n))
	}
	binary.NativeEndian.PutUint16(e.Bytes[at:], uint16(n))
	for len(e.Bytes)%4 != 0 {
		e.Bytes = append(e.Bytes, 0)
	}
}

func tooLong(n int) error { return fmt.Errorf("attribute of %d bytes is too long", n) }

// Nested appends an attribute that holds the ones appended by fn.
func (e *Encoder) Nested(kind uint16, fn func()) {
	at := e.OpenNested(kind)
	fn()
	e.Close(at)
}

// String appends a string and its final zero.
func (e *Encoder) String(kind uint16, s string) {
	at := e.Open(kind)
	e.Bytes = append(append(e.Bytes, s...), 0)
	e.Close(at)
}

// Data appends an attribute with these bytes.
func (e *Encoder) Data(kind uint16, b []byte) {
	at := e.Open(kind)
	e.Bytes = append(e.Bytes, b...)
	e.Close(at)
}

// Uint8 appends a number of one byte.
func (e *Encoder) Uint8(kind uint16, n uint8) { e.sized(kind, 1)[0] = n }

// Uint16 appends a number in network byte order.
func (e *Encoder) Uint16(kind, n uint16) { binary.BigEndian.PutUint16(e.sized(kind, 2), n) }

// Uint32 appends a number in network byte order.
func (e *Encoder) Uint32(kind uint16, n uint32) { binary.BigEndian.PutUint32(e.sized(kind, 4), n) }

// Uint64 appends a number in network byte order.
func (e *Encoder) Uint64(kind uint16, n uint64) { binary.BigEndian.PutUint64(e.sized(kind, 8), n) }

// NativeUint16 appends a number in the byte order of the machine.
func (e *Encoder) NativeUint16(kind, n uint16) { binary.NativeEndian.PutUint16(e.sized(kind, 2), n) }

// NativeUint32 appends a number in the byte order of the machine.
func (e *Encoder) NativeUint32(kind uint16, n uint32) {
	binary.NativeEndian.PutUint32(e.sized(kind, 4), n)
}

// sized appends an attribute of n bytes, and returns these.
func (e *Encoder) sized(kind uint16, n int) []byte {
	at := e.Open(kind)
	e.Bytes = append(e.Bytes, zeros[:n]...)
	e.Close(at)
	return e.Bytes[at+HeaderLen:]
}

// Userdata returns the value of a kind in the user data of an nf_tables object, or nil. User
// data is opaque to the kernel; nft writes it as a list of type, length (one byte each) and
// value.
func Userdata(b []byte, kind byte) []byte {
	for len(b) >= 2 {
		n := 2 + int(b[1])
		if len(b) < n {
			return nil
		}
		if b[0] == kind {
			return b[2:n:n]
		}
		b = b[n:]
	}
	return nil
}

// CommentTag is the type of a comment in the user data of tables, rules and elements
// (NFTNL_UDATA_TABLE_COMMENT, NFTNL_UDATA_RULE_COMMENT, NFTNL_UDATA_SET_ELEM_COMMENT).
const CommentTag = 0

// MaxComment is the length in bytes of the longest comment that nft writes.
const MaxComment = 128

// Comment appends user data with a comment, as nft writes it: type, length, text and a final
// zero. The text has at most [MaxComment] bytes.
func (e *Encoder) Comment(kind uint16, text string) {
	at := e.Open(kind)
	e.Bytes = append(append(append(e.Bytes, CommentTag, byte(len(text)+1)), text...), 0)
	e.Close(at)
}
