package resolve

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/model"
)

// A Packet is the first one of a connection to ask about.
type Packet struct {
	From     netip.Addr
	FromPort uint16 // zero for any
	To       netip.AddrPort
	Protocol model.Protocol
}

// Family returns the IP family of the packet.
func (p Packet) Family() model.Family { return model.FamilyOf(p.From) }

// Source returns the client's address, with its port if that is given.
func (p Packet) Source() string {
	if p.FromPort != 0 {
		return netip.AddrPortFrom(p.From, p.FromPort).String()
	}
	return p.From.String()
}

// String returns the packet as an argument of kube-vmap explain.
func (p Packet) String() string { return fmt.Sprintf("%s,%s/%s", p.Source(), p.To, p.Protocol) }

// Packets returns the packets from a client to a destination: one for each port and each
// of the families that both have. Entry is the node at which packets from outside the
// cluster arrive.
func Packets(c Client, d Destination, entry Object, families []model.Family) (out []Packet, err error) {
	for _, f := range families {
		from, ok := c.Addr(f)
		addresses := d.addresses(f, c.Outside(), entry)
		if !ok || len(addresses) == 0 {
			continue
		}
		for _, p := range d.Ports {
			packet := Packet{From: from, FromPort: c.Port, Protocol: p.Protocol}
			i := slices.IndexFunc(addresses, func(a address) bool { return !a.node || p.nodePort != 0 })
			if i < 0 {
				continue
			}
			packet.To = netip.AddrPortFrom(addresses[i].addr, p.Number)
			if addresses[i].node {
				packet.To = netip.AddrPortFrom(addresses[i].addr, p.nodePort)
			}
			out = append(out, packet)
		}
	}
	if len(out) == 0 {
		return nil, unreachable(c, d, entry)
	}
	return out, nil
}

// unreachable explains why no packet of the wanted families can be sent.
func unreachable(c Client, d Destination, entry Object) error {
	var has, offers []string
	for _, f := range model.Families {
		if _, ok := c.Addr(f); ok {
			has = append(has, f.String())
		}
		if len(d.addresses(f, c.Outside(), entry)) > 0 {
			offers = append(offers, f.String())
		}
	}
	if len(offers) == 0 && d.Service != nil && c.Outside() {
		return fmt.Errorf("%s has no address for clients outside the cluster (spec.type: %s): no load balancer IP, no "+
			"external IP and no node port", d, d.Service.Spec.Type)
	}
	field := ""
	if d.Service != nil {
		field = fmt.Sprintf(" (spec.ipFamilies: %v)", d.Service.Spec.IPFamilies)
	}
	return fmt.Errorf("%s has %s, and %s has %s%s: they share no wanted IP family", c, orNone(has), d, orNone(offers),
		field)
}

func orNone(families []string) string {
	if len(families) == 0 {
		return "no address"
	}
	return strings.Join(families, " and ")
}
