package xt

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// An info is the structure of a match or target. Its length is checked before it is read.
type info []byte

func (b info) u8(at int) uint8   { return b[at] }
func (b info) u16(at int) uint16 { return binary.NativeEndian.Uint16(b[at:]) }
func (b info) u32(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }

// be16 returns a port of a translation, which is in network byte order.
func (b info) be16(at int) uint16 { return binary.BigEndian.Uint16(b[at:]) }

// text returns a string that ends with a zero byte.
func (b info) text(at, n int) string {
	s, _, _ := bytes.Cut(b[at:at+n], []byte{0})
	return string(s)
}

// addrLen is the length of union nf_inet_addr.
const addrLen = 16

// addr returns a union nf_inet_addr.
func (b info) addr(at int, v6 bool) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte(b[at:]))
	}
	return netip.AddrFrom4([4]byte(b[at:]))
}

// ports returns two ports in the byte order of the machine.
func (b info) ports(at int) PortRange { return PortRange{b.u16(at), b.u16(at + 2)} }

// A revision identifies a structure.
type revision struct {
	name   string
	number uint32
}

// A format is how a structure is decoded.
type format struct {
	size   int // the least length
	decode func(b info, v6 bool) any
}

// decode decodes a structure; false if it is unknown.
func decode(formats map[revision]format, name string, number uint32, v6 bool, data []byte) (any, bool) {
	f, ok := formats[revision{name, number}]
	if !ok || len(data) < f.size {
		return nil, false
	}
	e := f.decode(data, v6)
	return e, e != nil
}
