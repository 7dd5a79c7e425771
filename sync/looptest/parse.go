package looptest

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/source/convert"
)

// namespace is the namespace of all objects.
const namespace = "default"

func serviceName(name string) model.ServiceName {
	return model.ServiceName{Namespace: namespace, Name: name}
}

func sliceName(name string) model.EndpointSliceName {
	return model.EndpointSliceName{Namespace: namespace, Name: name}
}

// setService is the command service.
func (s *script) setService(args []string) {
	v := model.Service{Name: serviceName(args[0])}
	for _, word := range args[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case name == "local":
			v.InternalPolicy = model.PolicyLocal
		case name == "age":
			v.Created = -int64(s.number(value))
		case name == "external":
			v.ExternalIPs = append(v.ExternalIPs, netip.MustParseAddr(value))
		case name == "affinity":
			v.Affinity = s.duration(value)
		case name == "scheduler":
			scheduler, err := convert.ParseScheduler(value)
			s.require(err)
			v.Scheduler = scheduler
		case strings.Contains(word, "/"):
			p := s.port(word)
			v.Ports = append(v.Ports, model.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port})
		default:
			v.ClusterIPs = append(v.ClusterIPs, netip.MustParseAddr(word))
		}
	}
	s.set(sync.SetService{Service: v})
}

// setSlice is the command slice.
func (s *script) setSlice(args []string) {
	v := model.EndpointSlice{Name: sliceName(args[0]), Service: serviceName(args[1])}
	for _, word := range args[2:] {
		if weight, ok := strings.CutPrefix(word, "weight="); ok {
			v.Weight = uint16(s.number(weight))
			v.Drained = v.Weight == 0
		} else if strings.Contains(word, "/") {
			v.Ports = append(v.Ports, s.port(word))
		} else {
			e := parseEndpoint(word)
			v.Endpoints = append(v.Endpoints, e)
			v.Family = model.FamilyOf(e.Addr)
		}
	}
	s.set(sync.SetSlice{Slice: v})
}

// parseEndpoint parses ADDRESS[@NODE][~ZONE].
func parseEndpoint(word string) model.Endpoint {
	word, zone, _ := strings.Cut(word, "~")
	word, node, _ := strings.Cut(word, "@")
	return model.Endpoint{
		Addr: netip.MustParseAddr(word), Ready: true, Serving: true, Node: node, ZoneHints: model.NameSetOf(zone),
	}
}

// port parses [NAME=]NUMBER/PROTOCOL.
func (s *script) port(word string) (p model.EndpointPort) {
	if before, after, named := strings.Cut(word, "="); named {
		p.Name, word = before, after
	}
	number, name, _ := strings.Cut(word, "/")
	protocol, err := model.ParseProtocol(name)
	s.require(err)
	p.Port, p.Protocol = uint16(s.number(number)), protocol
	return p
}

func (s *script) number(word string) int {
	n, err := strconv.Atoi(word)
	s.require(err)
	return n
}

func (s *script) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	s.require(err)
	return d
}

// setCIDRs is the command cidrs.
func (s *script) setCIDRs(args []string) {
	var cidrs []netip.Prefix
	for _, word := range args {
		cidrs = append(cidrs, netip.MustParsePrefix(word))
	}
	s.set(sync.SetServiceCIDRs{CIDRs: cidrs})
}

// setNode is the command node.
func (s *script) setNode(args []string) {
	s.set(sync.SetNode{Node: model.Node{Name: config.NodeName, Zone: strings.Join(args, "")}})
}

// delete is the command delete.
func (s *script) delete(args []string) {
	if args[0] == "slice" {
		s.set(sync.DeleteSlice{Name: sliceName(args[1])})
	} else {
		s.set(sync.DeleteService{Name: serviceName(args[1])})
	}
}
