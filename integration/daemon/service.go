package daemon

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	// Port is the first port of a Service.
	Port = 80
	// TargetPort is the port of the endpoints for it. The next port has the next
	// target port.
	TargetPort = 8080
)

// Service is a Service of both families, each port over every protocol, with its
// endpoints.
type Service struct {
	Name string
	// Namespace is "default" if empty.
	Namespace string
	Number    int // chooses its addresses and node ports: one Service, one number
	Created   time.Time
	// Kinds are its kinds of frontends besides the ClusterIP.
	Kinds []model.Kind
	// Ports is the number of ports, from [Port] on; 0 means 1.
	Ports int
	// ServicePorts are its ports, instead of a number of them.
	ServicePorts []ServicePort
	// Endpoints are the hosts that serve. Each of them is Times endpoints, at as many
	// ports from [TargetPort] on; 0 means 1.
	Endpoints []*lab.Host
	Times     int
	// Addresses are of endpoints that are no hosts of the lab, of either family.
	Addresses []netip.Addr
	// Weights are those of Endpoints, in their order; nil means the default. Endpoints of
	// weight 0 are drained.
	Weights []int
	// Priorities are the priorities of Endpoints, in their order; nil means the default.
	Priorities []int
	// EndpointSpec describes the endpoints, instead of Endpoints: hosts by name, each
	// with its conditions and hints, such as "pod-1 pod-2/unready | remote-1/zone=a".
	// A bar begins another EndpointSlice. See parseEndpoint.
	EndpointSpec string
	// Affinity is how long a client keeps its endpoint; 0 means no affinity.
	Affinity  time.Duration
	Scheduler string // the annotation; none if empty
	// Hold is how long connections wait for an endpoint; 0 means that they do not.
	Hold time.Duration
	// RetryRefused retries connections that an endpoint refuses.
	RetryRefused bool
	// SlowStart is the annotation; none if empty.
	SlowStart string
	// LocalInside and LocalOutside set internalTrafficPolicy and externalTrafficPolicy
	// to Local.
	LocalInside, LocalOutside bool
	Sources                   []string // load balancer source ranges
	// Edit changes the object in ways that the fields above cannot express.
	Edit func(*corev1.Service)
}

// ServicePort is a port of a Service.
type ServicePort struct {
	Name                   string
	Protocol               model.Protocol
	Port, Target, NodePort int
	// EndpointSpec describes endpoints of this port only, as [Service.EndpointSpec].
	EndpointSpec string
}

// EveryProtocol returns a port for each protocol. A name is prefix and protocol.
func EveryProtocol(prefix string, port, target, nodePort int) []ServicePort {
	var ports []ServicePort
	for _, p := range model.Protocols {
		ports = append(ports, ServicePort{Name: prefix + p.String(), Protocol: p, Port: port, Target: target, NodePort: nodePort})
	}
	return ports
}

// Has reports whether the Service has frontends of the kind.
func (s Service) Has(k model.Kind) bool {
	return k == model.KindClusterIP || slices.Contains(s.Kinds, k)
}

// Drained reports whether the n-th of Endpoints is drained.
func (s Service) Drained(n int) bool { return s.Weights != nil && s.Weights[n] == 0 }

// StandsBy reports whether another of Endpoints, which is not drained, has a better priority than the
// n-th.
func (s Service) StandsBy(n int) bool {
	for i := range s.Priorities {
		if s.Priorities[i] < s.Priorities[n] && !s.Drained(i) {
			return true
		}
	}
	return false
}

func (s Service) namespace() string { return cmp.Or(s.Namespace, "default") }

func (s Service) ports() []ServicePort {
	if s.ServicePorts != nil {
		return s.ServicePorts
	}
	var ports []ServicePort
	for n := range max(s.Ports, 1) {
		for _, p := range model.Protocols {
			ports = append(ports, ServicePort{
				Name: fmt.Sprintf("%s-%d", p, n), Protocol: p, Port: Port + n, Target: TargetPort + n, NodePort: s.nodePort(n),
			})
		}
	}
	return ports
}

func (s Service) object() *corev1.Service {
	out := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: s.Name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, LoadBalancerSourceRanges: s.Sources},
	}
	if !s.Created.IsZero() {
		out.CreationTimestamp = metav1.NewTime(s.Created)
	}
	out.Annotations = map[string]string{}
	if s.Scheduler != "" {
		out.Annotations["kube-vmap.io/scheduler"] = s.Scheduler
	}
	if s.Hold != 0 {
		out.Annotations["kube-vmap.io/hold"] = s.Hold.String()
	}
	if s.RetryRefused {
		out.Annotations["kube-vmap.io/retry-refused"] = "true"
	}
	if s.SlowStart != "" {
		out.Annotations["kube-vmap.io/slow-start"] = s.SlowStart
	}
	s.setAddresses(out)
	s.setPolicies(&out.Spec)
	for _, p := range s.ports() {
		port := corev1.ServicePort{Name: p.Name, Protocol: protocol(p.Protocol), Port: int32(p.Port)}
		if s.Has(model.KindNodePort) {
			port.NodePort = int32(p.NodePort)
		}
		out.Spec.Ports = append(out.Spec.Ports, port)
	}
	if s.Edit != nil {
		s.Edit(out)
	}
	return out
}

// setAddresses sets the object's type and the addresses that go with it.
func (s Service) setAddresses(out *corev1.Service) {
	if s.Has(model.KindNodePort) {
		out.Spec.Type = corev1.ServiceTypeNodePort
	}
	if s.Has(model.KindLoadBalancerIP) {
		out.Spec.Type = corev1.ServiceTypeLoadBalancer
		out.Spec.AllocateLoadBalancerNodePorts = ptr.To(s.Has(model.KindNodePort))
	}
	for _, f := range model.Families {
		out.Spec.ClusterIPs = append(out.Spec.ClusterIPs, s.Addr(f, model.KindClusterIP).String())
		out.Spec.IPFamilies = append(out.Spec.IPFamilies, corev1.IPFamily(f.String()))
		if s.Has(model.KindExternalIP) {
			out.Spec.ExternalIPs = append(out.Spec.ExternalIPs, s.Addr(f, model.KindExternalIP).String())
		}
		if s.Has(model.KindLoadBalancerIP) {
			out.Status.LoadBalancer.Ingress = append(out.Status.LoadBalancer.Ingress,
				corev1.LoadBalancerIngress{IP: s.Addr(f, model.KindLoadBalancerIP).String()})
		}
	}
	out.Spec.ClusterIP = out.Spec.ClusterIPs[0]
}

func (s Service) setPolicies(spec *corev1.ServiceSpec) {
	if s.LocalInside {
		spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if s.LocalOutside {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if s.Affinity > 0 {
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(int32(s.Affinity / time.Second))},
		}
	}
}

func protocol(p model.Protocol) corev1.Protocol { return corev1.Protocol(strings.ToUpper(p.String())) }

// Ranges of external IPs and load balancer IPs, in the order of [model.Families].
// ClusterIPs are from [lab.ServiceRanges].
var (
	externalRanges = ranges("198.51.100.0/24", "2001:db8:e::/112")
	balancerRanges = ranges("203.0.113.0/24", "2001:db8:b::/112")
)

// firstNodePort is the node port of the first port of Service number 0.
const firstNodePort = 30000

// nodePortsEach is the most node ports that a Service can have.
const nodePortsEach = 4

func ranges(ip4, ip6 string) [2]netip.Prefix {
	return [2]netip.Prefix{netip.MustParsePrefix(ip4), netip.MustParsePrefix(ip6)}
}

// Kinds are all kinds of frontends.
var Kinds = []model.Kind{model.KindClusterIP, model.KindNodePort, model.KindExternalIP, model.KindLoadBalancerIP}

// Addr returns the Service's address of a kind; the zero Addr for node ports.
func (s Service) Addr(f model.Family, k model.Kind) netip.Addr {
	switch k {
	case model.KindClusterIP:
		return lab.Nth(lab.ServiceRanges[f], s.Number)
	case model.KindExternalIP:
		return lab.Nth(externalRanges[f], s.Number)
	case model.KindLoadBalancerIP:
		return lab.Nth(balancerRanges[f], s.Number)
	}
	return netip.Addr{}
}

func (s Service) nodePort(n int) int { return firstNodePort + nodePortsEach*s.Number + n }

// AddrPort returns where clients reach the n-th port by a kind of frontend; a node
// port, at the given node.
func (s Service) AddrPort(node *lab.Node, f model.Family, k model.Kind, n int) netip.AddrPort {
	if k == model.KindNodePort {
		return node.AddrPort(f, uint16(s.nodePort(n)))
	}
	return netip.AddrPortFrom(s.Addr(f, k), uint16(Port+n))
}

// RouteServices routes packets of the host outside to Service addresses through a
// node.
func RouteServices(t testing.TB, l *lab.Lab, node *lab.Node) {
	t.Helper()
	for _, all := range [][2]netip.Prefix{lab.ServiceRanges, externalRanges, balancerRanges} {
		for _, f := range model.Families {
			if err := l.Outside.AddRoute(all[f], node.Addr(f)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// ClusterAddrPort returns the first port at the ClusterIP.
func (s Service) ClusterAddrPort(f model.Family) netip.AddrPort {
	return s.AddrPort(nil, f, model.KindClusterIP, 0)
}

// Random generates Services with random ports, kinds, endpoints and policies.
type Random struct {
	*rand.Rand
	Servers []*lab.Host
	// Ports and Times are the most ports and [Service.Times].
	Ports, Times int
	// One of each of these is chosen.
	Schedulers []string
	Affinities []time.Duration
	Sources    [][]string
	// Weights are those of endpoints, of which half of the Services have some; nil means
	// that none have.
	Weights []int
	// Holds is like Affinities. Half of the Services have Priorities of endpoints, if there are any.
	Holds      []time.Duration
	Priorities []int
}

// Service returns another Service.
func (r Random) Service(name string, number int) Service {
	s := Service{
		Name: name, Number: number,
		Ports: 1 + r.IntN(r.Ports), Times: 1 + r.IntN(r.Times),
		Scheduler: r.Schedulers[r.IntN(len(r.Schedulers))],
		Affinity:  r.Affinities[r.IntN(len(r.Affinities))],
	}
	for _, k := range Kinds {
		if r.IntN(2) == 0 {
			s.Kinds = append(s.Kinds, k)
		}
	}
	for _, i := range r.Perm(len(r.Servers))[:r.IntN(len(r.Servers)+1)] {
		s.Endpoints = append(s.Endpoints, r.Servers[i])
	}
	if r.Weights != nil && r.IntN(2) == 0 {
		for range s.Endpoints {
			s.Weights = append(s.Weights, r.Weights[r.IntN(len(r.Weights))])
		}
	}
	if r.Holds != nil {
		s.Hold = r.Holds[r.IntN(len(r.Holds))]
	}
	if r.Priorities != nil && r.IntN(2) == 0 {
		for range s.Endpoints {
			s.Priorities = append(s.Priorities, r.Priorities[r.IntN(len(r.Priorities))])
		}
	}
	s.LocalInside = r.IntN(3) == 0
	s.LocalOutside = len(s.Kinds) > 0 && r.IntN(2) == 0
	if s.Has(model.KindLoadBalancerIP) && r.IntN(2) == 0 {
		s.Sources = r.Sources[r.IntN(len(r.Sources))]
	}
	return s
}
