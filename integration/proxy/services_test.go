package proxy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	// port is what Services are asked at, targetPort what their endpoints serve.
	port       = 80
	targetPort = 8080
)

// service is a Service with its endpoints in a few words. Unless it says
// otherwise, it has the port 80 of every protocol, served on 8080.
type service struct {
	name    string
	address int // which of the ClusterIPs of either family; see clusterIP
	local   bool
	created time.Time
	ports   []servicePort
	// endpoints are the hosts that serve, as "pod-1 pod-2/unready": each with
	// its conditions and hints behind it, see endpoint. A bar begins another
	// EndpointSlice.
	endpoints string
}

// servicePort is a port of a Service. Its own endpoints, if given, are used in
// place of the Service's.
type servicePort struct {
	name      string
	protocol  model.Protocol
	port      int32
	target    int32
	endpoints string
}

// everyProtocol is the port 80 of every protocol.
func everyProtocol() []servicePort {
	var ports []servicePort
	for _, p := range model.Protocols {
		ports = append(ports, servicePort{name: p.String(), protocol: p, port: port, target: targetPort})
	}
	return ports
}

// clusterIP is the n-th address for Services.
func clusterIP(f model.Family, n int) netip.Addr {
	b := lab.ServiceRanges[f].Addr().AsSlice()
	b[len(b)-2], b[len(b)-1] = byte(n>>8), byte(n)
	a, _ := netip.AddrFromSlice(b)
	return a
}

// at is where to ask the Service.
func (s service) at(f model.Family) netip.AddrPort { return at(f, s.address, port) }

// at is a port of the n-th address for Services.
func at(f model.Family, n int, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(clusterIP(f, n), port)
}

// objects are the Service and its EndpointSlices.
func (s service) objects(hosts map[string]*lab.Host) []any {
	if s.ports == nil {
		s.ports = everyProtocol()
	}
	objects := []any{s.object()}
	for _, f := range model.Families {
		var common []servicePort
		for _, p := range s.ports {
			if p.endpoints == "" {
				common = append(common, p)
				continue
			}
			objects = append(objects, s.slices(hosts, f, "-"+p.name, []servicePort{p}, p.endpoints)...)
		}
		if len(common) > 0 {
			objects = append(objects, s.slices(hosts, f, "", common, s.endpoints)...)
		}
	}
	return objects
}

func (s service) object() *corev1.Service {
	out := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP},
	}
	if !s.created.IsZero() {
		out.CreationTimestamp = metav1.NewTime(s.created)
	}
	if s.local {
		out.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
	}
	for _, f := range model.Families {
		out.Spec.ClusterIPs = append(out.Spec.ClusterIPs, clusterIP(f, s.address).String())
		out.Spec.IPFamilies = append(out.Spec.IPFamilies, corev1.IPFamily(f.String()))
	}
	out.Spec.ClusterIP = out.Spec.ClusterIPs[0]
	for _, p := range s.ports {
		out.Spec.Ports = append(out.Spec.Ports, corev1.ServicePort{
			Name: p.name, Protocol: apiProtocol(p.protocol), Port: p.port,
		})
	}
	return out
}

// slices are the EndpointSlices of some of the Service's ports.
func (s service) slices(hosts map[string]*lab.Host, f model.Family, suffix string, ports []servicePort, endpoints string) []any {
	var out []any
	for i, list := range strings.Split(endpoints, "|") {
		slice := &discoveryv1.EndpointSlice{
			TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default",
				Name:      fmt.Sprintf("%s%s-%s-%d", s.name, suffix, strings.ToLower(f.String()), i),
				Labels:    map[string]string{discoveryv1.LabelServiceName: s.name},
			},
			AddressType: discoveryv1.AddressType(f.String()),
			Endpoints:   []discoveryv1.Endpoint{},
		}
		for _, p := range ports {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
				Name: ptr.To(p.name), Protocol: ptr.To(apiProtocol(p.protocol)), Port: ptr.To(p.target),
			})
		}
		for word := range strings.FieldsSeq(list) {
			slice.Endpoints = append(slice.Endpoints, endpoint(hosts, f, word))
		}
		out = append(out, slice)
	}
	return out
}

// endpoint reads a word such as "pod-1/terminating/zone=a". What stands behind
// the host is one of
//
//	unready      neither ready nor serving
//	terminating  on its way out, and still serving
//	terminated   on its way out, and not serving
//	zone=a,b     hinted for these zones
//	node=n,m     hinted for these nodes
func endpoint(hosts map[string]*lab.Host, f model.Family, word string) discoveryv1.Endpoint {
	parts := strings.Split(word, "/")
	node := "node-1"
	if strings.HasPrefix(parts[0], "remote") {
		node = "node-2"
	}
	e := discoveryv1.Endpoint{Addresses: []string{hosts[parts[0]].Addr(f).String()}, NodeName: &node}
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
			hint(&e, what, strings.Split(value, ","))
		default:
			panic("proxy: endpoint " + strconv.Quote(word) + " is neither a condition nor a hint")
		}
	}
	return e
}

func conditions(ready, serving, terminating bool) discoveryv1.EndpointConditions {
	return discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
}

func hint(e *discoveryv1.Endpoint, what string, names []string) {
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

func apiProtocol(p model.Protocol) corev1.Protocol {
	return corev1.Protocol(strings.ToUpper(p.String()))
}

// cluster is what a cluster has beside Services: the ranges of ClusterIPs, and
// node-1, which is in zone a.
func cluster() []any {
	cidr := &networkingv1.ServiceCIDR{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR"},
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
	}
	for _, f := range model.Families {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, lab.ServiceRanges[f].String())
	}
	return []any{cidr, nodeObject("node-1", "a")}
}

// nodeObject is a Node in a zone, or in none, with the pods of node-1.
func nodeObject(name, zone string) *corev1.Node {
	n := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	for _, f := range model.Families {
		n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, lab.PodRanges[f].String())
	}
	if zone != "" {
		n.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	}
	return n
}
