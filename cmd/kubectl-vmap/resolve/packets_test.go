package resolve

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"kube-vmap/model"
)

// TestPacketsUseTheAddressForTheClient has clients inside and outside the cluster, which use
// other addresses of a Service.
func TestPacketsUseTheAddressForTheClient(t *testing.T) {
	r := newResolver()
	for _, tc := range []struct {
		from, to string
		change   func(*corev1.Service)
		want     string
	}{
		{"pod/cart-0", "svc/web:http", nil, "10.244.1.7,10.96.0.10:80/tcp; fd00:10:244:1::7,[fd00:10:96::a]:80/tcp"},
		{"pod/cart-0:40000", "svc/one", nil, "10.244.1.7:40000,10.96.0.10:80/tcp"},
		{"pod/db-0", "svc/web:sig", nil, "10.244.2.8,10.96.0.10:2905/sctp"},
		{"node/node-1", "svc/web:dns", nil, "192.0.2.1,10.96.0.10:53/udp; 2001:db8::1,[fd00:10:96::a]:53/udp"},
		{"fd00:10:244:1::7", "pod/cart-1:http", nil, "fd00:10:244:1::7,[fd00:10:244:2::7]:8080/tcp"},
		{"198.51.100.7", "svc/web:http", nil, "198.51.100.7,198.51.100.80:80/tcp"},
		{"2001:db8:f::7", "svc/web:http", nil, "2001:db8:f::7,[2001:db8::1]:30080/tcp"},
		{"198.51.100.7", "svc/web:http", func(s *corev1.Service) {
			proxy := corev1.LoadBalancerIPModeProxy
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1", IPMode: &proxy}, {Hostname: "lb.example"}, {IP: "203.0.113.5"}}
		}, "198.51.100.7,203.0.113.5:80/tcp"},
		{"198.51.100.7", "node/node-1:30080", nil, "198.51.100.7,192.0.2.1:30080/tcp"},
	} {
		c, d := clientAndDestination(t, r, tc.from, tc.to)
		if tc.change != nil {
			tc.change(d.Service)
		}
		entries, _, err := r.Entries(t.Context(), d, "")
		if err != nil {
			t.Fatal(err)
		}
		packets, err := Packets(c, d, entries[0], bothFamilies)
		var got []string
		for _, p := range packets {
			got = append(got, p.String())
		}
		if text := strings.Join(got, "; "); err != nil || text != tc.want {
			t.Errorf("%s to %s: %s, %v, want %s", tc.from, tc.to, text, err, tc.want)
		}
	}
}

func TestPacketsNeedAFamilyOfBoth(t *testing.T) {
	r := newResolver()
	for _, tc := range []struct {
		from, to string
		families []model.Family
		want     string
	}{
		{"fd00:10:244:1::7", "svc/one", bothFamilies, "pod shop/cart-0 has IPv6, and service shop/one has IPv4 (spec.ipFamilies: [IPv4 IPv6]): they share no wanted IP family"},
		{"pod/db-0", "svc/web:http", []model.Family{model.IPv6}, "pod shop/db-0 has IPv4, and service shop/web has IPv4 and IPv6"},
		{"2001:db8:f::7", "svc/web:sig", bothFamilies, "service shop/web has IPv4 (spec.ipFamilies: [IPv4 IPv6]): they share no"},
	} {
		c, d := clientAndDestination(t, r, tc.from, tc.to)
		entries, _, _ := r.Entries(t.Context(), d, "")
		if _, err := Packets(c, d, entries[0], tc.families); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s to %s: %v, want %q", tc.from, tc.to, err, tc.want)
		}
	}
	c, d := clientAndDestination(t, r, "198.51.100.7", "svc/web:sig")
	d.Service.Spec.ExternalIPs = nil
	if _, err := Packets(c, d, Object{}, bothFamilies); err == nil || !strings.Contains(err.Error(), "spec.type: ClusterIP): no load balancer IP") {
		t.Error(err)
	}
}

// TestEntryIsAnyNode has destinations that are on no node, and on one.
func TestEntryIsAnyNode(t *testing.T) {
	r := newResolver()
	for _, tc := range []struct{ to, name, want string }{
		{"svc/web:http", "", "node-1 node-2 node-3"},
		{"198.51.100.80:80", "", "node-1 node-2 node-3"},
		{"svc/web:http", "node-3", "node-3"},
		{"pod/cart-1:http", "", "node-2"},
		{"192.0.2.3:30080", "", "node-3"},
	} {
		_, d := clientAndDestination(t, r, "198.51.100.7", tc.to)
		list, _, err := r.Entries(t.Context(), d, tc.name)
		var got []string
		for _, o := range list {
			got = append(got, o.Node)
		}
		if text := strings.Join(got, " "); err != nil || text != tc.want {
			t.Errorf("%s: %s, %v", tc.to, text, err)
		}
	}
}

func clientAndDestination(t *testing.T, r *Resolver, from, to string) (Client, Destination) {
	t.Helper()
	c, err := r.Client(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Destination(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	return c, d
}

// TestManyEntriesAreASample has more nodes than are returned; load balancers use only two of them.
func TestManyEntriesAreASample(t *testing.T) {
	web := service("shop/web", func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	list := []runtime.Object{web, slice("web", "web-0", "10.244.0.7", "node-27"), slice("web", "web-1", "10.244.0.8", "node-8")}
	for i := range 30 {
		n := strconv.Itoa(i)
		list = append(list, node("node-"+n, "10.244."+n+".0/24", "fd00:10:244:"+n+"::/64", "192.0.2."+n))
	}
	list[2].(*discoveryv1.EndpointSlice).Name = "web-b"
	r := &Resolver{API: fake.NewClientset(list...), Namespace: "shop"}
	d, err := r.Destination(t.Context(), "svc/web:http")
	if err != nil {
		t.Fatal(err)
	}
	entries, notes, err := r.Entries(t.Context(), d, "")
	first := []string{entries[0].Node, entries[1].Node}
	slices.Sort(first)
	if err != nil || len(entries) != maxEntries || !slices.Equal(first, []string{"node-27", "node-8"}) || !strings.Contains(strings.Join(notes, ""), "at 30 nodes, of which 10 were requested") {
		t.Errorf("%d, %q, %q, %v", len(entries), first, notes, err)
	}
}
