package wire

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

// message is a netlink message as it is found in an encoded batch.
type message struct {
	kind, flags uint16
	sequence    uint32
	family      uint8
	raw         []byte // the whole message
}

// data is the part after the netlink header.
func (m *message) data() []byte { return m.raw[attr.MessageHeaderLen:] }

// split takes the bytes of a batch apart.
func split(t testing.TB, b []byte) []message {
	t.Helper()
	var out []message
	for len(b) > 0 {
		n := int(binary.NativeEndian.Uint32(b))
		if n < attr.MessageHeaderLen+attr.BodyHeaderLen || n > len(b) || n%4 != 0 {
			t.Fatalf("message %d of %d bytes, where %d are left", len(out), n, len(b))
		}
		out = append(out, message{
			kind: binary.NativeEndian.Uint16(b[4:]), flags: binary.NativeEndian.Uint16(b[6:]),
			sequence: binary.NativeEndian.Uint32(b[8:]), family: b[attr.MessageHeaderLen], raw: b[:n],
		})
		b = b[n:]
	}
	return out
}

// encoded is the batch as bytes.
func encoded(t testing.TB, b nft.Batch) *Encoded {
	t.Helper()
	e, err := Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// attribute is an attribute and where it begins in its message.
type attribute struct {
	kind   uint16
	offset int
	value  []byte
}

// attrs reads the attributes in raw[from:to]. Each must be padded with zeros.
func attrs(t testing.TB, raw []byte, from, to int) []attribute {
	t.Helper()
	var out []attribute
	for at := from; at < to; {
		n := int(binary.NativeEndian.Uint16(raw[at:]))
		if n < attr.HeaderLen || at+n > to {
			t.Fatalf("attribute of %d bytes at %d, where %d are left", n, at, to-at)
		}
		out = append(out, attribute{binary.NativeEndian.Uint16(raw[at+2:]), at, raw[at+attr.HeaderLen : at+n]})
		for at += n; at%4 != 0; at++ {
			if raw[at] != 0 {
				t.Fatalf("padding of %#x at %d", raw[at], at)
			}
		}
	}
	return out
}

// elementsIn finds the elements of a message, ends of intervals included.
func elementsIn(t testing.TB, m *message) []attribute {
	t.Helper()
	for _, a := range attrs(t, m.raw, attr.MessageHeaderLen+attr.BodyHeaderLen, len(m.raw)) {
		if a.kind == unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED {
			return attrs(t, m.raw, a.offset+attr.HeaderLen, a.offset+attr.HeaderLen+len(a.value))
		}
	}
	t.Fatal("a message without a list of elements")
	return nil
}
