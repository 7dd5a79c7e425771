package converttest

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// A Draw makes objects from bytes that a fuzzer chose. When no bytes are left it
// draws the first choice, which is the usual one.
type Draw struct{ bytes []byte }

// NewDraw returns a Draw of these bytes.
func NewDraw(data []byte) *Draw { return &Draw{data} }

// IsEmpty reports whether all bytes are used.
func (d *Draw) IsEmpty() bool { return len(d.bytes) == 0 }

// N draws a number below the limit, which is at most 256.
func (d *Draw) N(limit int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := int(d.bytes[0])
	d.bytes = d.bytes[1:]
	return b % limit
}

// Odd reports true in one of so many draws.
func (d *Draw) Odd(times int) bool { return d.N(times) == times-1 }

// text draws one of the words, or now and then some bytes.
func (d *Draw) text(words ...string) string {
	i := d.N(len(words) + 1)
	if i < len(words) {
		return words[i]
	}
	n := min(d.N(12), len(d.bytes))
	out := string(d.bytes[:n])
	d.bytes = d.bytes[n:]
	return out
}

// One draws one of the values.
func One[T any](d *Draw, values ...T) T { return values[d.N(len(values))] }

// maybe draws one of the values or none.
func maybe[T any](d *Draw, values ...T) *T {
	i := d.N(len(values) + 1)
	if i == 0 {
		return nil
	}
	return ptr.To(values[i-1])
}

// list draws at most so many texts.
func (d *Draw) list(most int, words ...string) []string {
	var out []string
	for range d.N(most + 1) {
		out = append(out, d.text(words...))
	}
	return out
}

// Words to draw: valid ones first, then plausible mistakes.
var (
	drawnNamespaces = []string{"default", "shop", "kube-system", "Shop", "a\nb", `"`}
	drawnNames      = []string{"web", "dns", "api", "x", "web.internal", "-", `a" }`, strings.Repeat("n", 64)}
	drawnClusterIPs = []string{
		"10.96.0.1", "10.96.0.2", "10.96.0.3", "fd00:10:96::1", "fd00:10:96::2",
		"None", "", "010.96.0.1", "::ffff:10.96.0.1", "127.0.0.1", "fe80::1%eth0", "224.0.0.1", "169.254.20.10",
	}
	drawnOutside = []string{
		"203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8::2", "10.96.0.1", "fd00:10:96::1", "10.244.1.1",
		"0.0.0.0", "::", "::1", "169.254.169.254", "fe80::1", "255.255.255.255", "not an address", "203.0.113.1 ",
	}
	drawnRanges = []string{
		"198.51.100.0/24", "198.51.100.128/25", "198.51.100.7/32", "2001:db8:1::/48", "2001:db8:1::7/128", "0.0.0.0/0",
		"::/0", " 192.0.2.1/24 ", "0.0.0.0/1", "255.255.255.255/32", "::ffff:192.0.2.0/120", "192.0.2.0", "192.0.2.0/33",
		"10.244.1.0/24", "fd00:10:244:1::/64", "10.96.0.0/12", "fd00:10:96::/112", "ffff::/16",
	}
	drawnPods = []string{
		"10.244.1.1", "10.244.1.2", "10.244.2.1", "10.244.1.1", "fd00:10:244:1::1", "fd00:10:244:1::2",
		"10.96.0.1", "192.0.2.10", "::ffff:10.244.1.1", "127.0.0.1", "",
	}
	drawnProtocols = [...]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	drawnNodes     = []string{"node-1", "node-2", "", "Node_1", "a,b"}
	drawnZones     = []string{"zone-a", "zone-b", "", "zone,a", strings.Repeat("z", 64)}
)

// number draws a port number.
func (d *Draw) number(usual ...int32) int32 {
	if d.Odd(8) {
		return One[int32](d, 0, -1, 1, 65535, 65536, 1<<31-1, -1<<31)
	}
	return One(d, usual...)
}

// meta draws an object's metadata.
func (d *Draw) meta(names ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "default", Name: names[d.N(4)]}
	if d.Odd(8) {
		m.Namespace, m.Name = d.text(drawnNamespaces...), d.text(names...)
	}
	if d.Odd(4) {
		m.CreationTimestamp = metav1.Unix(int64(d.N(3)), 0)
		m.UID = "uid"
	}
	return m
}

// Service draws a Service.
func (d *Draw) Service() *corev1.Service {
	s := &corev1.Service{ObjectMeta: d.meta(drawnNames...)}
	spec := &s.Spec
	spec.Type = One[corev1.ServiceType](d, "ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer", "")
	d.clusterIPs(spec)
	for i := range 1 + d.N(3) {
		spec.Ports = append(spec.Ports, d.servicePort(i))
	}
	if d.Odd(2) {
		d.outside(s)
	}
	if d.Odd(3) {
		spec.SessionAffinity = One[corev1.ServiceAffinity](d, "ClientIP", "ClientIP", "None", "", "Cookie")
		if d.Odd(2) {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
				ClientIP: maybe(d, corev1.ClientIPConfig{TimeoutSeconds: maybe[int32](d, 1, 10800, 86400, 0, 86401, -1)}),
			}
		}
	}
	if d.Odd(3) {
		s.Annotations = map[string]string{"kube-vmap.io/scheduler": d.text("random", "rr", "sh", "mh", "lc", "wrr", "fo", "dh", "")}
	}
	if d.Odd(6) {
		spec.Type = corev1.ServiceType(d.text("ExternalName", "Other"))
		s.Labels = map[string]string{d.text("service.kubernetes.io/service-proxy-name"): d.text("other")}
		spec.PublishNotReadyAddresses = d.Odd(2)
		spec.Selector = map[string]string{"app": d.text("web")}
		spec.LoadBalancerIP, spec.ExternalName = d.text(drawnOutside...), d.text("example.com")
	}
	if d.Odd(3) {
		s.Annotations = map[string]string{d.text("kube-vmap.io/weight", "service.cilium.io/weight"): d.text("0", "1", "2", "40", "65535", "x")}
	}
	if d.Odd(6) {
		s.Annotations = map[string]string{d.text(corev1.AnnotationTopologyMode, corev1.DeprecatedAnnotationTopologyAwareHints): d.text("Auto", "auto")}
		s.Spec.TrafficDistribution = maybe(d, corev1.ServiceTrafficDistributionPreferClose)
	}
	if d.Odd(3) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, "kube-vmap.io/source-ranges", d.text("all", "", "some"))
		denied := strings.Join(d.list(3, drawnRanges...), ",")
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, "kube-vmap.io/denied-source-ranges", denied)
	}
	if d.Odd(6) {
		selector := d.text("role=edge", "!role", "role notin (edge)", "role in", "")
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, "kube-vmap.io/nodes", selector)
	}
	if d.Odd(3) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, "kube-vmap.io/slow-start", One(d, "10s", "30s", "soon"))
	}
	return s
}

// clusterIPs draws a valid combination of ClusterIPs, or any.
func (d *Draw) clusterIPs(spec *corev1.ServiceSpec) {
	n := 1 + d.N(3)
	v4, v6 := fmt.Sprintf("10.96.0.%d", n), fmt.Sprintf("fd00:10:96::%d", n)
	switch d.N(12) {
	case 0, 1, 2, 3:
		spec.ClusterIP, spec.ClusterIPs = v4, []string{v4, v6}
	case 4, 5:
		spec.ClusterIP, spec.ClusterIPs = v6, []string{v6, v4}
		spec.IPFamilies = []corev1.IPFamily{"IPv6", "IPv4"}
	case 6, 7:
		spec.ClusterIP = v4
	case 8, 9:
		spec.ClusterIP = v6
	case 10:
		spec.ClusterIP = d.text(drawnClusterIPs...)
		spec.ClusterIPs = []string{spec.ClusterIP}
	default:
		spec.ClusterIP = d.text(drawnClusterIPs...)
		spec.ClusterIPs = append([]string{spec.ClusterIP}, d.list(2, drawnClusterIPs...)...)
		for range d.N(3) {
			spec.IPFamilies = append(spec.IPFamilies, One[corev1.IPFamily](d, "IPv4", "IPv6", "IPv5"))
		}
	}
}

func (d *Draw) servicePort(i int) corev1.ServicePort {
	p := corev1.ServicePort{
		Name:     [...]string{"http", "dns", "sip"}[i],
		Protocol: drawnProtocols[i],
		Port:     d.number(80, 53, 443),
		NodePort: d.number(0, 30080, 30053),
	}
	if d.Odd(8) {
		p.Name, p.Protocol = d.text("http", "dns", "", "Bad_Name", "http"), One[corev1.Protocol](d, "tcp", "ICMP", "TCP", "")
	}
	return p
}

// outside draws addresses for traffic from outside the cluster.
func (d *Draw) outside(s *corev1.Service) {
	spec := &s.Spec
	spec.ExternalIPs = d.list(3, drawnOutside...)
	spec.LoadBalancerSourceRanges = d.list(3, drawnRanges...)
	for range d.N(4) {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{
			IP: d.text(drawnOutside...), IPMode: maybe[corev1.LoadBalancerIPMode](d, "VIP", "VIP", "Proxy", "Other"),
			Hostname: d.text("", "lb.example.com"),
		})
	}
	spec.ExternalTrafficPolicy = One[corev1.ServiceExternalTrafficPolicy](d, "Cluster", "Local", "Local", "", "Remote")
	spec.InternalTrafficPolicy = maybe[corev1.ServiceInternalTrafficPolicy](d, "Cluster", "Local", "Local", "Remote")
	spec.HealthCheckNodePort = d.number(0, 31000, 31001)
	if d.Odd(24) {
		d.crowd(spec)
	}
}

// crowd draws many addresses of one kind, sometimes more than the limits of package
// convert (maxFrontends, maxSourceRanges).
func (d *Draw) crowd(spec *corev1.ServiceSpec) {
	if d.Odd(2) {
		for i := range One(d, 200, 400, 20_001) {
			spec.LoadBalancerSourceRanges = append(spec.LoadBalancerSourceRanges, fmt.Sprintf("192.0.%d.%d/32", i/250, i%250))
		}
		return
	}
	for i := range One(d, 200, 500, 3_500, 10_001) {
		spec.ExternalIPs = append(spec.ExternalIPs, fmt.Sprintf("192.0.%d.%d", i/250, i%250))
	}
}

// Slice draws an EndpointSlice.
func (d *Draw) Slice() *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: d.meta("1", "2", "3", "4", "a b", "web.1", "")}
	service := drawnNames[d.N(4)]
	s.Labels, s.Name = map[string]string{discoveryv1.LabelServiceName: service}, service+"-"+s.Name
	s.AddressType = One[discoveryv1.AddressType](d, "IPv4", "IPv6")
	if d.Odd(16) {
		s.AddressType = One[discoveryv1.AddressType](d, "FQDN", "IPX")
	}
	if d.Odd(12) {
		s.Labels[d.text("service.kubernetes.io/headless")] = d.text("")
		s.Labels[discoveryv1.LabelServiceName] = d.text(drawnNames...)
	}
	for i := range (1 + d.N(3)) % (3 + d.N(2)) {
		p := discoveryv1.EndpointPort{
			Name: ptr.To([...]string{"http", "dns", "sip"}[i]), Port: ptr.To(d.number(8080, 53, 5060)),
			Protocol: &drawnProtocols[i],
		}
		if d.Odd(8) {
			p.Name, p.Port = maybe(d, d.text("", "http", "Bad_Name")), maybe(d, *p.Port)
			p.Protocol = maybe[corev1.Protocol](d, "udp", "")
		}
		s.Ports = append(s.Ports, p)
	}
	for range d.N(6) {
		s.Endpoints = append(s.Endpoints, d.endpoint(s.AddressType))
	}
	if d.Odd(16) {
		for i := range One(d, 254, 256, 300, 1000) {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{manyPods(s.AddressType, i)}})
		}
	}
	if d.Odd(4) {
		s.Labels[discoveryv1.LabelManagedBy] = d.text("endpointslice-controller.k8s.io", "by-hand")
		s.Annotations = map[string]string{d.text("kube-vmap.io/weight", "service.cilium.io/weight"): d.text("0", "1", "40", "65536")}
	}
	if d.Odd(8) {
		s.Annotations = map[string]string{"kube-vmap.io/priority": d.text("0", "1", "9", "10")}
	}
	return s
}

// manyPods is the address of one of a crowd of pods.
func manyPods(t discoveryv1.AddressType, i int) string {
	if t == discoveryv1.AddressTypeIPv6 {
		return fmt.Sprintf("fd00:10:244:9::%x", i)
	}
	return fmt.Sprintf("10.244.%d.%d", 100+i/250, i%250)
}

func (d *Draw) endpoint(t discoveryv1.AddressType) discoveryv1.Endpoint {
	address := fmt.Sprintf("10.244.1.%d", 1+d.N(6))
	if t == discoveryv1.AddressTypeIPv6 {
		address = fmt.Sprintf("fd00:10:244:1::%d", 1+d.N(6))
	}
	e := discoveryv1.Endpoint{Addresses: []string{address}, NodeName: maybe(d, "node-1", "node-1", "node-2")}
	if d.Odd(4) {
		e.Conditions = discoveryv1.EndpointConditions{
			Ready: maybe(d, true, false), Serving: maybe(d, true, false), Terminating: maybe(d, true, false),
		}
	}
	if d.Odd(4) {
		e.Hints = &discoveryv1.EndpointHints{}
		for _, zone := range d.list(2, drawnZones...) {
			e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: zone})
		}
		for _, node := range d.list(2, drawnNodes...) {
			e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: node})
		}
	}
	if d.Odd(8) {
		e.Addresses, e.NodeName = d.list(2, drawnPods...), maybe(d, d.text(drawnNodes...))
		e.DeprecatedTopology = map[string]string{"zone": d.text(drawnZones...)}
	}
	return e
}

// Node draws the Node node-1.
func (d *Draw) Node() *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	n.Labels = map[string]string{corev1.LabelTopologyZone: d.text(drawnZones...), "role": d.text("edge", "inner", "a,b")}
	for range d.N(4) {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{
			Type:    One[corev1.NodeAddressType](d, "InternalIP", "InternalIP", "ExternalIP", "Hostname", "Other"),
			Address: d.text("192.0.2.1", "192.0.2.2", "2001:db8:9::1", "2001:db8:9::2", "127.0.0.1", "198.51.100.7", ""),
		})
	}
	n.Spec.PodCIDRs = d.list(2, "10.244.1.0/24", "fd00:10:244:1::/64", "10.244.2.0/24", "0.0.0.0/0", "x")
	n.Spec.PodCIDR = d.text("", "10.244.1.0/24")
	if d.Odd(4) {
		n.Spec.Taints = []corev1.Taint{{Key: d.text("ToBeDeletedByClusterAutoscaler")}}
		n.DeletionTimestamp = maybe(d, metav1.Unix(1, 0))
	}
	return n
}

// ServiceCIDR draws a ServiceCIDR.
func (d *Draw) ServiceCIDR() *networkingv1.ServiceCIDR {
	c := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: One(d, "kubernetes", "more")}}
	c.Spec.CIDRs = d.list(4, drawnRanges...)
	return c
}
