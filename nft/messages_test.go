package nft

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// message is a netlink message as it is found in an encoded batch.
type message struct {
	kind, flags uint16
	sequence    uint32
	family      uint8
	raw         []byte // the whole message
}

// data is what follows the netlink header.
func (m *message) data() []byte { return m.raw[headerLen:] }

// split takes the bytes of a batch apart.
func split(t testing.TB, b []byte) []message {
	t.Helper()
	var out []message
	for len(b) > 0 {
		n := int(binary.NativeEndian.Uint32(b))
		if n < headerLen+nfHeaderLen || n > len(b) || n%4 != 0 {
			t.Fatalf("message %d of %d bytes, where %d are left", len(out), n, len(b))
		}
		out = append(out, message{
			kind: binary.NativeEndian.Uint16(b[4:]), flags: binary.NativeEndian.Uint16(b[6:]),
			sequence: binary.NativeEndian.Uint32(b[8:]), family: b[headerLen], raw: b[:n],
		})
		b = b[n:]
	}
	return out
}

// encoded is the batch as bytes.
func encoded(t testing.TB, b Batch) *Encoded {
	t.Helper()
	e, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// attr is an attribute and where it begins in its message.
type attr struct {
	kind   uint16
	offset int
	value  []byte
}

// attrs reads the attributes in raw[from:to]. Each must be padded with zeros.
func attrs(t testing.TB, raw []byte, from, to int) []attr {
	t.Helper()
	var out []attr
	for at := from; at < to; {
		n := int(binary.NativeEndian.Uint16(raw[at:]))
		if n < attrLen || at+n > to {
			t.Fatalf("attribute of %d bytes at %d, where %d are left", n, at, to-at)
		}
		out = append(out, attr{binary.NativeEndian.Uint16(raw[at+2:]), at, raw[at+attrLen : at+n]})
		for at += n; at%4 != 0; at++ {
			if raw[at] != 0 {
				t.Fatalf("padding of %#x at %d", raw[at], at)
			}
		}
	}
	return out
}

// elementsIn finds the elements of a message, ends of intervals included.
func elementsIn(t testing.TB, m *message) []attr {
	t.Helper()
	for _, a := range attrs(t, m.raw, headerLen+nfHeaderLen, len(m.raw)) {
		if a.kind == unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED {
			return attrs(t, m.raw, a.offset+attrLen, a.offset+attrLen+len(a.value))
		}
	}
	t.Fatal("a message without a list of elements")
	return nil
}
