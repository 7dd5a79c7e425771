package resolve

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/cmd/inspect/explain/reference"
	"kube-vmap/model"
)

// A Port is a port of a destination.
type Port struct {
	Name     string
	Number   uint16
	Protocol model.Protocol

	nodePort uint16 // of a Service
	target   string // spec.ports[].targetPort of a Service
}

// String returns "http 80/tcp".
func (p Port) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %d/%s", p.Name, p.Number, p.Protocol))
}

func protocol(p corev1.Protocol) model.Protocol {
	out, _ := model.ParseProtocol(string(Protocol(p))) // validated by the API server
	return out
}

// maxPorts is how many ports of one Service are explained by one command.
const maxPorts = 4

// selectPorts returns the ports that a reference names, by name or number; without one, all.
// Only a Service's must exist.
func selectPorts(what string, existing []Port, ref reference.Reference) ([]Port, error) {
	if ref.Port == "" {
		switch {
		case len(existing) == 0:
			return nil, fmt.Errorf("%s: name a port, for instance :80 or :53/udp", what)
		case len(existing) > maxPorts:
			return nil, fmt.Errorf("%s has %d ports, name one: %s", what, len(existing), portList(existing))
		}
		return existing, nil
	}
	number, err := strconv.ParseUint(ref.Port, 10, 16)
	numeric := err == nil && number != 0
	matches := slices.DeleteFunc(slices.Clone(existing), func(p Port) bool {
		same := p.Name == ref.Port || numeric && p.Number == uint16(number)
		return !same || ref.HasProtocol && p.Protocol != ref.Protocol
	})
	switch {
	case len(matches) > 0:
		return matches, nil
	case numeric && ref.Kind != reference.KindService:
		p := Port{Number: uint16(number), Protocol: model.TCP}
		if ref.HasProtocol {
			p.Protocol = ref.Protocol
		}
		return []Port{p}, nil
	}
	text := fmt.Sprintf("%s has no port %s", what, ref.Port)
	if ref.HasProtocol {
		text += "/" + ref.Protocol.String()
	}
	if len(existing) > 0 {
		text += "; it has " + portList(existing)
	}
	return nil, fmt.Errorf("%s%s", text, otherPort(existing, ref.Port))
}

func portList(ports []Port) string {
	var out []string
	for _, p := range ports {
		out = append(out, p.String())
	}
	return strings.Join(out, ", ")
}

// otherPort names the port of a Service that has a text as its target port or node port.
func otherPort(ports []Port, text string) string {
	for _, p := range ports {
		switch text {
		case p.target:
			return fmt.Sprintf(" (%s is spec.ports[].targetPort of %s: clients use %d)", text, p, p.Number)
		case strconv.Itoa(int(p.nodePort)):
			return fmt.Sprintf(" (%s is the node port of %s: write --to node/NAME:%[1]s)", text, p)
		}
	}
	return ""
}

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
