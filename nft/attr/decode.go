package attr

import (
	"cmp"
	"encoding/binary"
	"errors"
	"iter"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrTruncated is the error for a message or attribute that ends too early, and for a
// number of unexpected length.
var ErrTruncated = errors.New("message is truncated")

// A Decoder reads messages and attributes in place and keeps the first error. The zero
// value is ready for use.
type Decoder struct{ err error }

// Err returns the first error.
func (d *Decoder) Err() error { return d.err }

// Fail records an error, unless there is one already.
func (d *Decoder) Fail(err error) { d.err = cmp.Or(d.err, err) }

// A Header is the netlink header of a message.
type Header struct {
	Type, Flags uint16
	Sequence    uint32
}

// Messages yields header and body of each message of b, up to one that is truncated.
func (d *Decoder) Messages(b []byte) iter.Seq2[Header, []byte] {
	return func(yield func(Header, []byte) bool) {
		for len(b) >= MessageHeaderLen {
			n := int(binary.NativeEndian.Uint32(b))
			if n < MessageHeaderLen || n > len(b) {
				break
			}
			h := Header{
				Type:     binary.NativeEndian.Uint16(b[4:]),
				Flags:    binary.NativeEndian.Uint16(b[6:]),
				Sequence: binary.NativeEndian.Uint32(b[8:]),
			}
			if !yield(h, b[MessageHeaderLen:n]) {
				return
			}
			b = b[min(aligned(n), len(b)):]
		}
		if len(b) > 0 {
			d.Fail(ErrTruncated)
		}
	}
}

// Attributes yields kind and value of each attribute of b, up to one that is truncated.
// The kind is without the flags for nesting and byte order.
func (d *Decoder) Attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= HeaderLen {
			n := int(binary.NativeEndian.Uint16(b))
			kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if n < HeaderLen || n > len(b) {
				break
			}
			if !yield(kind, b[HeaderLen:n]) {
				return
			}
			b = b[min(aligned(n), len(b)):]
		}
		if len(b) > 0 {
			d.Fail(ErrTruncated)
		}
	}
}

// aligned rounds a length up to where the next message or attribute begins.
func aligned(n int) int { return (n + 3) &^ 3 }

// Body returns the part of a message's body after the header that every message of
// netfilter and of generic netlink begins with.
func (d *Decoder) Body(b []byte) []byte {
	if len(b) < BodyHeaderLen {
		d.Fail(ErrTruncated)
		return nil
	}
	return b[BodyHeaderLen:]
}

// Find returns the value of the last attribute of a kind, or nil.
func (d *Decoder) Find(b []byte, kind uint16) (found []byte) {
	for k, value := range d.Attributes(b) {
		if k == kind {
			found = value
		}
	}
	return found
}

// String returns the value of a string attribute without its final zeros.
func String(b []byte) string { return strings.TrimRight(string(b), "\x00") }

// Uint8 returns the value of an attribute of one byte.
func (d *Decoder) Uint8(b []byte) uint8 { return d.sized(b, 1)[0] }

// Uint16 returns a number in network byte order.
func (d *Decoder) Uint16(b []byte) uint16 { return binary.BigEndian.Uint16(d.sized(b, 2)) }

// Uint32 returns a number in network byte order.
func (d *Decoder) Uint32(b []byte) uint32 { return binary.BigEndian.Uint32(d.sized(b, 4)) }

// Uint64 returns a number in network byte order.
func (d *Decoder) Uint64(b []byte) uint64 { return binary.BigEndian.Uint64(d.sized(b, 8)) }

// NativeUint16 returns a number in the byte order of the machine.
func (d *Decoder) NativeUint16(b []byte) uint16 { return binary.NativeEndian.Uint16(d.sized(b, 2)) }

// NativeUint32 returns a number in the byte order of the machine.
func (d *Decoder) NativeUint32(b []byte) uint32 { return binary.NativeEndian.Uint32(d.sized(b, 4)) }

var zeros [8]byte

// sized returns the value if it has n bytes, or else zeros.
func (d *Decoder) sized(b []byte, n int) []byte {
	if len(b) != n {
		d.Fail(ErrTruncated)
		return zeros[:n]
	}
	return b
}
