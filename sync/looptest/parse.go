package looptest

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/convert"
)

// namespace is the namespace of all objects.
const namespace = "default"

func serviceName(name string) model.ServiceName {
	return model.ServiceName{Namespace: namespace, Name: name}
}

func sliceName(name string) model.EndpointSliceName {
	return model.EndpointSliceName{Namespace: namespace, Name: name}
}

// parseService parses the arguments of the command service.
func parseService(args []string) (sync.Event, error) {
	s := model.Service{Name: serviceName(args[0])}
	for _, word := range args[1:] {
		if addr, err := netip.ParseAddr(word); err == nil {
			s.ClusterIPs = append(s.ClusterIPs, addr)
			continue
		}
		if age, ok := strings.CutPrefix(word, "age="); ok {
			n, err := strconv.ParseInt(age, 10, 64)
			if err != nil {
				return nil, err
			}
			s.Created = -n
			continue
		}
		if known, err := parseOption(&s, word); err != nil {
			return nil, err
		} else if known {
			continue
		}
		name, number, protocol, err := parsePort(word)
		if err != nil {
			return nil, err
		}
		s.Ports = append(s.Ports, model.ServicePort{Name: name, Protocol: protocol, Port: number})
	}
	return sync.SetService{Service: s}, nil
}

// parseOption parses an argument of the command service that is neither an address of the
// cluster nor a port. It reports false if it is none.
func parseOption(s *model.Service, word string) (known bool, err error) {
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "local":
		s.InternalPolicy = model.PolicyLocal
	case "external":
		var addr netip.Addr
		addr, err = netip.ParseAddr(value)
		s.ExternalIPs = append(s.ExternalIPs, addr)
	case "affinity":
		s.Affinity, err = time.ParseDuration(value)
	case "scheduler":
		s.Scheduler, err = convert.ParseScheduler(value)
	default:
		return false, nil
	}
	return true, err
}

// parseSlice parses the arguments of the command slice.
func parseSlice(args []string) (sync.Event, error) {
	s := model.EndpointSlice{Name: sliceName(args[0]), Service: serviceName(args[1])}
	for _, word := range args[2:] {
		if weight, ok := strings.CutPrefix(word, "weight="); ok {
			n, err := strconv.ParseUint(weight, 10, 16)
			if err != nil {
				return nil, err
			}
			s.Weight, s.Drained = uint16(n), n == 0
			continue
		}
		if name, number, protocol, err := parsePort(word); err == nil {
			s.Ports = append(s.Ports, model.EndpointPort{Name: name, Protocol: protocol, Port: number})
			continue
		}
		e, err := parseEndpoint(word)
		if err != nil {
			return nil, err
		}
		s.Endpoints = append(s.Endpoints, e)
		s.Family = model.FamilyOf(e.Addr)
	}
	return sync.SetSlice{Slice: s}, nil
}

// parseEndpoint parses ADDRESS[@NODE][~ZONE].
func parseEndpoint(word string) (model.Endpoint, error) {
	word, zone, _ := strings.Cut(word, "~")
	word, node, _ := strings.Cut(word, "@")
	addr, err := netip.ParseAddr(word)
	return model.Endpoint{Addr: addr, Ready: true, Serving: true, Node: node, ZoneHints: model.NameSetOf(zone)}, err
}

// parsePort parses [NAME=]NUMBER/PROTOCOL.
func parsePort(word string) (name string, number uint16, protocol model.Protocol, err error) {
	if before, after, ok := strings.Cut(word, "="); ok {
		name, word = before, after
	}
	digits, proto, _ := strings.Cut(word, "/")
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return "", 0, 0, fmt.Errorf("invalid port %q", word)
	}
	protocol, err = model.ParseProtocol(proto)
	return name, uint16(n), protocol, err
}

// parseCIDRs parses the arguments of the command cidrs.
func parseCIDRs(args []string) (sync.Event, error) {
	var cidrs []netip.Prefix
	for _, word := range args {
		p, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, err
		}
		cidrs = append(cidrs, p)
	}
	return sync.SetServiceCIDRs{CIDRs: cidrs}, nil
}

// parseNode parses the arguments of the command node.
func parseNode(args []string) (sync.Event, error) {
	return sync.SetNode{Node: model.Node{Name: config.NodeName, Zone: strings.Join(args, "")}}, nil
}

// parseDelete parses the arguments of the command delete.
func parseDelete(args []string) (sync.Event, error) {
	switch args[0] {
	case "service":
		return sync.DeleteService{Name: serviceName(args[1])}, nil
	case "slice":
		return sync.DeleteSlice{Name: sliceName(args[1])}, nil
	}
	return nil, fmt.Errorf("%q cannot be deleted", args[0])
}
