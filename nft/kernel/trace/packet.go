package trace

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// A Packet is the addresses and ports of a packet at one point of its path. Translations
// change them on the way.
type Packet struct {
	From, To netip.AddrPort // port 0 where the protocol has none
	Protocol uint8          // IPPROTO_*
	// Begins is true if it opens a connection: a TCP SYN, an SCTP INIT.
	Begins bool
}

// protocolName returns the name of a transport protocol as in Services.
func protocolName(number uint8) string {
	switch model.Protocol(number) {
	case model.TCP:
		return "TCP"
	case model.UDP:
		return "UDP"
	case model.SCTP:
		return "SCTP"
	}
	switch number {
	case unix.IPPROTO_ICMP:
		return "ICMP"
	case unix.IPPROTO_ICMPV6:
		return "ICMPv6"
	}
	return fmt.Sprintf("protocol %d", number)
}

// hasPorts reports whether a protocol has ports, which are at the same offsets in all that do.
func hasPorts(protocol uint8) bool {
	switch protocol {
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP, unix.IPPROTO_UDPLITE, unix.IPPROTO_DCCP:
		return true
	}
	return false
}

// String returns the packet as in "TCP 10.244.1.2:43210 > 10.96.0.10:53".
func (p Packet) String() string {
	return fmt.Sprintf("%s %s > %s", protocolName(p.Protocol), addrText(p.From), addrText(p.To))
}

// addrText returns an address, with the port if there is one.
func addrText(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}

// decodePacket decodes the headers of a packet. It returns nil without an IP header.
func decodePacket(network, transport []byte) *Packet {
	if len(network) == 0 {
		return nil
	}
	p := &Packet{}
	var from, to netip.Addr
	switch b := network; {
	case b[0]>>4 == 4 && len(b) >= 20:
		p.Protocol = b[9]
		from, to = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	case b[0]>>4 == 6 && len(b) >= 40:
		p.Protocol = b[6] // the next header, even if that is an extension header
		from, to = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	default:
		return nil
	}
	p.From, p.To = netip.AddrPortFrom(from, 0), netip.AddrPortFrom(to, 0)
	p.decodeTransport(transport)
	return p
}

// decodeTransport decodes ports, and whether the packet opens a connection.
func (p *Packet) decodeTransport(b []byte) {
	if !hasPorts(p.Protocol) || len(b) < 4 {
		return
	}
	p.From = netip.AddrPortFrom(p.From.Addr(), binary.BigEndian.Uint16(b))
	p.To = netip.AddrPortFrom(p.To.Addr(), binary.BigEndian.Uint16(b[2:]))
	switch {
	case p.Protocol == unix.IPPROTO_TCP && len(b) > tcpFlagsAt:
		p.Begins = b[tcpFlagsAt]&(tcpSYN|tcpACK) == tcpSYN
	case p.Protocol == unix.IPPROTO_SCTP && len(b) > sctpChunkAt:
		p.Begins = b[sctpChunkAt] == sctpINIT
	}
}

// Headers of packets that open a connection (RFC 9293, 3.1; RFC 9260, 3.2).
const (
	tcpFlagsAt  = 13
	tcpSYN      = 0x02
	tcpACK      = 0x10
	sctpChunkAt = 12 // the type of the first chunk
	sctpINIT    = 1
)
