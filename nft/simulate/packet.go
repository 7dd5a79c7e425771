package simulate

import (
	"fmt"
	"net/netip"

	"kube-vmap/model"
)

// A Packet is the first packet of a connection.
type Packet struct {
	From     netip.Addr
	FromPort uint16 // zero means any
	To       netip.AddrPort
	Protocol model.Protocol
}

// Family returns the family of the packet's addresses.
func (p Packet) Family() model.Family { return model.FamilyOf(p.To.Addr()) }

// Match returns the part of the packet that matches a frontend.
func (p Packet) Match() model.Match {
	return model.Match{Family: p.Family(), Addr: p.To.Addr(), Protocol: p.Protocol, Port: p.To.Port()}
}

// String returns the packet as in "10.244.1.7 -> 10.96.0.10:53/udp".
func (p Packet) String() string {
	from := p.From.String()
	if p.FromPort != 0 {
		from = netip.AddrPortFrom(p.From, p.FromPort).String()
	}
	return fmt.Sprintf("%s -> %s/%s", from, p.To, p.Protocol)
}
