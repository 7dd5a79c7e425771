package simulator

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/simulate"
)

// A setKey is what a packet has for the fields of a type.
type setKey struct {
	query  simulate.IPSetQuery
	fields []string
	// ports is true for a set of ports without a protocol.
	ports bool
}

// ofSource reports whether a field, counted from zero, is of the packet's source.
func (k setKey) ofSource(field int) bool { return k.query.FromSource&(1<<(field+1)) != 0 }

func (k setKey) end(field int) netip.AddrPort {
	if k.ofSource(field) {
		return k.query.Source
	}
	return k.query.Destination
}

func (k setKey) link(field int) string {
	if k.ofSource(field) {
		return k.query.In
	}
	return k.query.Out
}

// check returns an error for what is not known of a packet.
func (k setKey) check() error {
	for i, f := range k.fields {
		switch {
		case f == "mac":
			return simulate.Undecided("a match of a set of link-layer addresses")
		case f == "port" && k.end(i).Port() == 0:
			return simulate.Undecided("a match of a set with the client's port, which is not named")
		case f == "iface" && k.link(i) == "":
			return simulate.Undecided("a match of a set of interfaces, of which the packet has none")
		}
	}
	return nil
}

func (k setKey) encode(e *attr.Encoder) {
	addr := uint16(elementAddr)
	for i, f := range k.fields {
		switch f {
		case "ip", "net":
			encodeAddr(e, addr, k.end(i).Addr())
			addr = elementAddr2
		case "port":
			if !k.ports {
				e.Uint8(elementProtocol, uint8(k.query.Protocol))
			}
			e.Uint16(elementPort|unix.NLA_F_NET_BYTEORDER, k.end(i).Port())
		case "iface":
			e.String(elementLink, k.link(i))
		case "mark":
			e.Uint32(elementMark|unix.NLA_F_NET_BYTEORDER, k.query.Mark)
		}
	}
	if k.query.ReturnNoMatch {
		e.Uint32(elementFlags|unix.NLA_F_NET_BYTEORDER, flagNoMatch)
	}
}

func encodeAddr(e *attr.Encoder, kind uint16, a netip.Addr) {
	e.Nested(kind, func() {
		if a.Is4() {
			b := a.As4()
			e.Uint32(addrIPv4|unix.NLA_F_NET_BYTEORDER, binary.BigEndian.Uint32(b[:]))
			return
		}
		e.Data(addrIPv6|unix.NLA_F_NET_BYTEORDER, a.AsSlice())
	})
}
