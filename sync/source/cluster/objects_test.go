package cluster_test

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// service returns a Service with both families and all protocols.
func service(name string, n int) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{
			Type:       corev1.ServiceTypeClusterIP,
			ClusterIPs: []string{fmt.Sprintf("10.96.%d.%d", n/256, n%256), fmt.Sprintf("fd00:96::%x", n)},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
		},
	}
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	for i, p := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: strings.ToLower(string(p)), Protocol: p, Port: int32(80 + i)})
	}
	return s
}

// slice returns an EndpointSlice of the Service with endpoints of those numbers.
func slice(service string, f model.Family, endpoints ...int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: service + "-" + strings.ToLower(f.String()),
			Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressType(f.String()),
	}
	for i, p := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{
			Name: ptr.To(strings.ToLower(string(p))), Protocol: ptr.To(p), Port: ptr.To(int32(8080 + i)),
		})
	}
	for _, n := range endpoints {
		addr := fmt.Sprintf("10.1.%d.%d", n/250, n%250+1)
		if f == model.IPv6 {
			addr = fmt.Sprintf("fd00:1::%x", n+1)
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{addr}, NodeName: ptr.To(fmt.Sprintf("node-%d", n%7)),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
			Hints:      &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: fmt.Sprintf("zone-%d", n%3)}}},
		})
	}
	return s
}

// node returns the Node node-1 with an address of each family.
func node() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelTopologyZone: "zone-1"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeInternalIP, Address: "2001:db8::1"},
		}},
	}
}

// withPodCIDRs adds pod CIDRs to a node.
func withPodCIDRs(n *corev1.Node) *corev1.Node {
	n.Spec.PodCIDRs = []string{"10.1.0.0/24", "fd00:1::/64"}
	return n
}

func serviceCIDR(name string, ranges ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: ranges},
	}
}

// lines describes events, one per line, sorted.
func lines(events []sync.Event) string {
	var out []string
	for _, e := range events {
		out = append(out, line(e))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func line(e sync.Event) string {
	switch e := e.(type) {
	case sync.SetService:
		return fmt.Sprintf("service %s %s", e.Service.Name, e.Service.ClusterIPs[0])
	case sync.DeleteService:
		return "no service " + e.Name.String()
	case sync.SetSlice:
		return fmt.Sprintf("slice %s %d", e.Slice.Name, len(e.Slice.Endpoints))
	case sync.DeleteSlice:
		return "no slice " + e.Name.String()
	case sync.SetNode:
		return fmt.Sprintf("node %s %q %s %s %q", e.Node.Name, e.Node.Zone, e.Node.Addrs, e.Node.PodCIDRs, e.Ineligible)
	case sync.SetServiceCIDRs:
		return fmt.Sprintf("cidrs %s", e.CIDRs)
	case sync.SetProblem:
		return fmt.Sprintf("problem of %s %s: %v", e.Object, e.Object.UID, e.Err)
	}
	return fmt.Sprintf("%T", e)
}
