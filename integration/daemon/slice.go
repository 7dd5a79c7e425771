package daemon

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

type hosts map[string]*lab.Host

func (s Service) slices(hosts hosts, f model.Family) []any {
	var out []any
	var common []ServicePort
	for _, p := range s.ports() {
		if p.EndpointSpec == "" {
			common = append(common, p)
			continue
		}
		for i, list := range parseEndpoints(hosts, f, p.EndpointSpec) {
			out = append(out, s.slice(f, fmt.Sprintf("%s-%s-%s-%d", s.Name, p.Name, family(f), i), []ServicePort{p}, list))
		}
	}
	if len(common) == 0 {
		return out
	}
	lists := parseEndpoints(hosts, f, s.EndpointSpec)
	if s.Endpoints != nil || s.Addresses != nil {
		lists = s.endpoints(f)
	}
	for n := range max(s.Times, 1) {
		for i, list := range lists {
			out = append(out, s.slice(f, fmt.Sprintf("%s-%s-%d", s.Name, family(f), n*len(lists)+i), moved(common, n), list))
		}
	}
	return out
}

func moved(ports []ServicePort, n int) []ServicePort {
	out := append([]ServicePort(nil), ports...)
	for i := range out {
		out[i].Target += n
	}
	return out
}

func (s Service) slice(f model.Family, name string, ports []ServicePort, list endpointList) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace(), Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: s.Name},
		},
		AddressType: discoveryv1.AddressType(f.String()),
		Endpoints:   list.endpoints,
	}
	out.Annotations = map[string]string{}
	for name, value := range map[string]string{"weight": list.weight, "priority": list.priority} {
		if value != "" {
			out.Annotations["kube-vmap.io/"+name] = value
		}
	}
	for _, p := range ports {
		out.Ports = append(out.Ports, discoveryv1.EndpointPort{
			Name: ptr.To(p.Name), Protocol: ptr.To(protocol(p.Protocol)), Port: ptr.To(int32(p.Target)),
		})
	}
	return out
}

func (s Service) endpoints(f model.Family) (lists []endpointList) {
	for n, h := range s.Endpoints {
		var of endpointList
		if s.Weights != nil {
			of.weight = strconv.Itoa(s.Weights[n])
		}
		if s.Priorities != nil {
			of.priority = strconv.Itoa(s.Priorities[n])
		}
		lists = addEndpoint(lists, of, endpoint(h.Addr(f)))
	}
	for _, a := range s.Addresses {
		if model.FamilyOf(a) == f {
			lists = addEndpoint(lists, endpointList{}, endpoint(a))
		}
	}
	return lists
}

func endpoint(a netip.Addr) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{a.String()}, NodeName: ptr.To(nodeOf(a))}
}

// nodeOf returns the name of the node that a pod runs on.
func nodeOf(a netip.Addr) string {
	switch f := model.FamilyOf(a); {
	case lab.RemotePodRanges[f].Contains(a):
		return "node-2"
	case lab.ThirdPodRanges[f].Contains(a):
		return "node-3"
	}
	return "node-1"
}

// endpointList are the endpoints of a slice, and its weight and priority, if it has any.
type endpointList struct {
	endpoints        []discoveryv1.Endpoint
	weight, priority string
}

func addEndpoint(lists []endpointList, of endpointList, e discoveryv1.Endpoint) []endpointList {
	i := slices.IndexFunc(lists, func(l endpointList) bool { return l.weight == of.weight && l.priority == of.priority })
	if i < 0 {
		i = len(lists)
		lists = append(lists, of)
	}
	lists[i].endpoints = append(lists[i].endpoints, e)
	return lists
}

// parseEndpoints parses [Service.EndpointSpec], one list for each slice: for each part
// between bars, and for each weight and priority in it.
func parseEndpoints(hosts hosts, f model.Family, spec string) (lists []endpointList) {
	for text := range strings.SplitSeq(spec, "|") {
		part := []endpointList{{endpoints: []discoveryv1.Endpoint{}}}
		for word := range strings.FieldsSeq(text) {
			word, priority, _ := strings.Cut(word, "/priority=")
			word, weight, _ := strings.Cut(word, "/weight=")
			part = addEndpoint(part, endpointList{weight: weight, priority: priority}, parseEndpoint(hosts, f, word))
		}
		if len(part) > 1 && len(part[0].endpoints) == 0 {
			part = part[1:]
		}
		lists = append(lists, part...)
	}
	return lists
}

// parseEndpoint parses a word such as "pod-1/terminating/zone=a". The name of a
// host may be followed by
//
//	unready      neither ready nor serving
//	terminating  terminating, and still serving
//	terminated   terminating, and not serving
//	zone=a,b     hints for these zones
//	node=n,m     hints for these nodes
//
// and at last by weight=n and priority=n, of its slice (parseEndpoints).
func parseEndpoint(hosts hosts, f model.Family, word string) discoveryv1.Endpoint {
	parts := strings.Split(word, "/")
	h := hosts[parts[0]]
	if h == nil {
		panic("daemon: no host " + strconv.Quote(parts[0]))
	}
	e := endpoint(h.Addr(f))
	e.Conditions = conditions(true, true, false)
	for _, part := range parts[1:] {
		what, value, _ := strings.Cut(part, "=")
		switch what {
		case "unready":
			e.Conditions = conditions(false, false, false)
		case "terminating":
			e.Conditions = conditions(false, true, true)
		case "terminated":
			e.Conditions = conditions(false, false, true)
		case "zone", "node":
			addHints(&e, what, strings.Split(value, ",")...)
		default:
			panic("daemon: endpoint " + strconv.Quote(word) + " has an unknown condition")
		}
	}
	return e
}

func conditions(ready, serving, terminating bool) discoveryv1.EndpointConditions {
	return discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
}

func addHints(e *discoveryv1.Endpoint, what string, names ...string) {
	if e.Hints == nil {
		e.Hints = &discoveryv1.EndpointHints{}
	}
	for _, name := range names {
		if what == "zone" {
			e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: name})
		} else {
			e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: name})
		}
	}
}

func family(f model.Family) string { return strings.ToLower(f.String()) }
