package trace

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"kube-vmap/model"
)

// A Packet is the addresses and ports of a packet at one point of its path. Translations
// change them on the way.
type Packet struct {
	From, To netip.AddrPort
	Protocol model.Protocol
}

// String returns the packet as in "TCP 10.244.1.2:43210 > 10.96.0.10:53".
func (p Packet) String() string {
	return fmt.Sprintf("%s %s > %s", strings.ToUpper(p.Protocol.String()), p.From, p.To)
}

// decodePacket decodes the headers of a packet. It returns nil without an IP header. Ports are
// where TCP, UDP and SCTP have them: packets of other protocols are another program's.
func decodePacket(network, transport []byte) *Packet {
	var protocol byte
	var from, to netip.Addr
	switch b := network; {
	case len(b) >= 20 && b[0]>>4 == 4:
		protocol = b[9]
		from, to = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	case len(b) >= 40 && b[0]>>4 == 6:
		protocol = b[6] // the next header, even if that is an extension header
		from, to = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	default:
		return nil
	}
	var fromPort, toPort uint16
	if len(transport) >= 4 {
		fromPort, toPort = binary.BigEndian.Uint16(transport), binary.BigEndian.Uint16(transport[2:])
	}
	return &Packet{netip.AddrPortFrom(from, fromPort), netip.AddrPortFrom(to, toPort), model.Protocol(protocol)}
}
