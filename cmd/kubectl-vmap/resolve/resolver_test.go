package resolve

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"

	"kube-vmap/model"
)

func TestClientIsResolved(t *testing.T) {
	r := newResolver()
	for _, tc := range []struct{ text, want, node, addresses, note string }{
		{"pod/cart-0", "pod shop/cart-0", "node-1", "10.244.1.7 fd00:10:244:1::7", ""},
		{"po/shop/cart-0:40000", "pod shop/cart-0", "node-1", "10.244.1.7 fd00:10:244:1::7", ""},
		{"Pods/kube-system/agent", "pod kube-system/agent", "node-2", "192.0.2.2 2001:db8::2", "spec.hostNetwork: true"},
		{"deploy/cart", "pod shop/cart-1", "node-2", "10.244.2.7 fd00:10:244:2::7", "pod cart-1 is one of 2 of deployment shop/cart"},
		{"sts/db", "pod shop/db-0", "node-2", "10.244.2.8", "none of which is ready"},
		{"ds/kube-system/agent", "pod kube-system/agent", "node-2", "192.0.2.2 2001:db8::2", "spec.hostNetwork"},
		{"node/node-1", "node node-1", "node-1", "192.0.2.1 2001:db8::1", ""},
		{"10.244.1.7", "pod shop/cart-0", "node-1", "10.244.1.7", ""},
		{"[fd00:10:244:1::7]:40000", "pod shop/cart-0", "node-1", "fd00:10:244:1::7", ""},
		{"2001:db8::2", "node node-2", "node-2", "2001:db8::2", ""},
		{"192.0.2.99:1234", "node node-1", "node-1", "192.0.2.99", ""}, // its second of a family
		{"10.244.2.200", "10.244.2.200", "node-2", "10.244.2.200", "no pod has it"},
		{"10.9.9.9", "pod shop/far", "node-3", "10.9.9.9", ""}, // only an EndpointSlice knows it
		{"198.51.100.7", "198.51.100.7", "", "198.51.100.7", ""},
	} {
		c, err := r.Client(t.Context(), tc.text)
		if err != nil || c.String() != tc.want || c.Node != tc.node || join(c.Addresses) != tc.addresses ||
			!strings.Contains(strings.Join(c.Notes, "; "), tc.note) || c.Outside() != (tc.node == "") {
			t.Errorf("%s: %s on %q, %s, %q, %v", tc.text, c, c.Node, join(c.Addresses), c.Notes, err)
		}
		if wantsPort := strings.HasSuffix(tc.text, ":40000"); (c.Port == 40000) != wantsPort {
			t.Errorf("%s: port %d", tc.text, c.Port)
		}
	}
}

func TestErrorsOfNamesSuggestWhatExists(t *testing.T) {
	r := newResolver()
	for text, want := range map[string]string{
		"":                   "is empty",
		"cart-0":             "write pod/cart-0",
		"shop/cart-0":        `"shop" is not a kind: write pod`,
		"pod/":               "is not a name",
		"pod/a/b/c":          "is not a name",
		"pod/cart-0:":        "has no port after the colon",
		"pod/cart-0:http":    "not the number of a source port",
		"pod/cart-0:80/udp":  "belongs to --to",
		"svc/web":            "sends no packets",
		"fe80::1%eth0":       "link-local",
		"10.0.0":             "is not an address",
		"pod/cart":           "there is no pod cart in namespace shop; kubectl get pods -A lists them",
		"pod/default/cart-0": "there is no pod cart-0 in namespace default",
		"deploy/shop/crat":   "there is no deployment crat in namespace shop",
		"deploy/empty":       "has no pod with an address: 0 pods match its selector app=empty",
		"node/node-9":        "there is no node node-9; kubectl get nodes lists them",
		"pod/done":           "has ended (status.phase: Succeeded)",
		"pod/waiting":        "is on no node yet: Unschedulable: 0/3 nodes are available",
		"pod/starting":       "on node node-1 has no address yet (status.phase: Pending)",
	} {
		if _, err := r.Client(t.Context(), text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func join(list []netip.Addr) string {
	var out []string
	for _, a := range list {
		out = append(out, a.String())
	}
	return strings.Join(out, " ")
}

// newResolver returns a resolver for a cluster of three nodes.
func newResolver() *Resolver {
	return &Resolver{Namespace: "shop", API: fake.NewClientset(
		node("node-1", "10.244.1.0/24", "fd00:10:244:1::/64", "192.0.2.1", "2001:db8::1", "192.0.2.99"),
		node("node-2", "10.244.2.0/24", "fd00:10:244:2::/64", "192.0.2.2", "2001:db8::2"),
		node("node-3", "10.244.3.0/24", "fd00:10:244:3::/64", "192.0.2.3", "2001:db8::3"),
		pod("shop/cart-0", "node-1", false, "10.244.1.7", "fd00:10:244:1::7"),
		pod("shop/cart-1", "node-2", true, "10.244.2.7", "fd00:10:244:2::7"),
		pod("shop/db-0", "node-2", false, "10.244.2.8"),
		change(pod("kube-system/agent", "node-2", true, "192.0.2.2", "2001:db8::2"), func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
		change(pod("shop/done", "node-1", false, "10.244.1.7"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		change(pod("shop/waiting", "", false), func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
		}),
		change(pod("shop/starting", "node-1", false), func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		&appsv1.Deployment{ObjectMeta: objectMeta("shop/cart"), Spec: appsv1.DeploymentSpec{Selector: matches("cart")}},
		&appsv1.Deployment{ObjectMeta: objectMeta("shop/empty"), Spec: appsv1.DeploymentSpec{Selector: matches("empty")}},
		&appsv1.StatefulSet{ObjectMeta: objectMeta("shop/db"), Spec: appsv1.StatefulSetSpec{Selector: matches("db")}},
		&appsv1.DaemonSet{ObjectMeta: objectMeta("kube-system/agent"), Spec: appsv1.DaemonSetSpec{Selector: matches("agent")}},
		service("shop/web", func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"198.51.100.80"} }),
		service("shop/one", func(s *corev1.ServiceSpec) { s.Ports = s.Ports[:1]; s.ClusterIPs = s.ClusterIPs[:1] }),
		service("shop/many", func(s *corev1.ServiceSpec) { s.Ports = append(s.Ports, s.Ports...) }),
		service("shop/headless", func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = corev1.ClusterIPNone, nil }),
		service("shop/pending", func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "", nil }),
		service("shop/alias", func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "web.example" }),
		change(slice("headless", "cart-0", "10.244.1.7", "node-1"), func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = append(s.Endpoints, slice("", "cart-1", "10.244.2.7", "node-2").Endpoints...)
		}),
		slice("elsewhere", "far", "10.9.9.9", "node-3"),
		slice("web", "cart-1", "10.244.2.7", "node-2"),
		change(slice("many", "cart-2", "10.244.3.7", "node-3"), func(s *discoveryv1.EndpointSlice) {
			no, yes := false, true
			s.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
		}),
	)}
}

func objectMeta(name string) metav1.ObjectMeta {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		return metav1.ObjectMeta{Name: namespace}
	}
	app, _, _ := strings.Cut(name, "-")
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}}
}

func matches(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func node(name, range4, range6 string, addresses ...string) runtime.Object {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: range4, PodCIDRs: []string{range4, range6}}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func pod(name, node string, ready bool, addresses ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: objectMeta(name), Spec: corev1.PodSpec{NodeName: node}}
	p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP}}}}
	p.Status.Phase = corev1.PodRunning
	for i, a := range addresses {
		if i == 0 {
			p.Status.PodIP = a
		}
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a})
	}
	if ready {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return p
}

func change[T any](o T, f func(T)) T {
	f(o)
	return o
}

// service returns a Service with ports http 80/tcp, dns 53/udp, dns-tcp 53/tcp, sig 2905/sctp.
func service(name string, f func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: objectMeta(name), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10", "fd00:10:96::a"},
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
		Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), NodePort: 30080},
			{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
			{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP},
			{Name: "sig", Port: 2905, Protocol: corev1.ProtocolSCTP},
		},
	}}
	return change(s, func(s *corev1.Service) { f(&s.Spec) })
}

func slice(service, pod, address, node string) *discoveryv1.EndpointSlice {
	port, ready := int32(8080), true
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: service + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Ports:      []discoveryv1.EndpointPort{{Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{address}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: pod},
		}},
	}
}

func portTexts(ports []Port) (out []string) {
	for _, p := range ports {
		out = append(out, p.String())
	}
	slices.Sort(out)
	return out
}

var bothFamilies = model.Families[:]
