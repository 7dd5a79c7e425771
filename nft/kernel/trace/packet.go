package trace

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Packet is what a packet says of itself at one place. Translations change it from
// one place to the next.
type Packet struct {
	From, To netip.AddrPort // port 0 where the protocol has none
	Protocol uint8          // IPPROTO_*
	// Begins tells that it opens a connection: a TCP SYN, an SCTP INIT.
	Begins bool
}

// protocolName is how Services call a transport protocol.
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

// hasPorts reports whether the protocol has ports where all have them that do.
func hasPorts(protocol uint8) bool {
	switch protocol {
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP, unix.IPPROTO_UDPLITE, unix.IPPROTO_DCCP:
		return true
	}
	return false
}

// String is the packet in a few words: "TCP 10.244.1.2:43210 > 10.96.0.10:53".
func (p Packet) String() string {
	return fmt.Sprintf("%s %s > %s", protocolName(p.Protocol), addrText(p.From), addrText(p.To))
}

// addrText is an address, with the port if there is one.
func addrText(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}

// packet reads the headers; nil if there are none, or none of IP.
func (h headers) packet() *Packet {
	if len(h.network) == 0 {
		return nil
	}
	p := &Packet{}
	var from, to netip.Addr
	switch b := h.network; {
	case b[0]>>4 == 4 && len(b) >= 20:
		p.Protocol = b[9]
		from, to = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	case b[0]>>4 == 6 && len(b) >= 40:
		p.Protocol = b[6] // that of the next header, where others stand before the transport's
		from, to = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	default:
		return nil
	}
	p.From, p.To = netip.AddrPortFrom(from, 0), netip.AddrPortFrom(to, 0)
	p.transport(h.transport)
	return p
}

// transport reads ports, and whether a connection begins.
func (p *Packet) transport(b []byte) {
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

// What opens a connection (RFC 9293, 3.1; RFC 9260, 3.2).
const (
	tcpFlagsAt  = 13
	tcpSYN      = 0x02
	tcpACK      = 0x10
	sctpChunkAt = 12 // the type of the first chunk
	sctpINIT    = 1
)
