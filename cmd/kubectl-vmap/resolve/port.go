package resolve

import (
	"fmt"
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
