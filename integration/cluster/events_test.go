package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/model"
)

// event waits for an event of that reason in a namespace that suits.
func (c *oneNode) event(t *testing.T, namespace, reason string, suits func(*eventsv1.Event) bool) *eventsv1.Event {
	t.Helper()
	ctx := clustertest.Context(t)
	var found *eventsv1.Event
	clustertest.Must(t, c.proxy.Daemon.Await(ctx, "an event "+reason, func() error {
		list, err := c.Client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if suits(&list.Items[i]) {
				found = &list.Items[i]
				return nil
			}
		}
		return fmt.Errorf("none of %d", len(list.Items))
	}))
	return found
}

// described returns the events that kubectl describe prints.
func (c *oneNode) described(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(clustertest.Context(t), append([]string{"describe"}, args...)...)
	clustertest.Must(t, err)
	_, events, _ := strings.Cut(out, "\nEvents:")
	return events
}

// TestEventsAreInKubectlDescribe creates all objects first: events that every node may
// create are delayed for up to half a minute, at random.
func TestEventsAreInKubectlDescribe(t *testing.T) {
	t.Parallel()
	c := newOneNode(t, 1)
	ctx := clustertest.Context(t)
	c.proxy = c.Proxy(t, c.Lab.Node)
	name, addrs := c.NodeName(c.Lab.Node), anywhere()
	first := c.create(t, "first", externalIPs(addrs))
	half := c.create(t, "half", func(s *corev1.Service) {
		single := corev1.IPFamilyPolicySingleStack
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &single, s.Spec.IPFamilies[:1]
		s.Spec.ExternalIPs = []string{"2001:db8::7"} // the Service has no IPv6
	})
	c.service(t, "slices", func(s *corev1.Service) { s.Spec.Selector = nil })
	slice := slicesOf("slices", c.Lab.Pods[:1])[0]
	slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new("every-port")})
	slice, err := c.ns.CreateSlice(ctx, slice)
	clustertest.Must(t, err)
	open := c.create(t, "open", balanced, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} })
	balancer := c.balancer(t, "open")
	<-time.After(time.Until(first.CreationTimestamp.Add(time.Second))) // the API has the time to the second
	second := c.create(t, "second", externalIPs(addrs))

	t.Run("the start of the proxy", func(t *testing.T) {
		e := c.event(t, "default", "Starting", func(e *eventsv1.Event) bool { return e.Regarding.Name == name })
		if e.Regarding.Kind != "Node" || e.Type != corev1.EventTypeNormal || e.ReportingController != "kube-vmap" {
			t.Errorf("the event is %+v", e)
		}
		if says := c.described(t, "node", name); !strings.Contains(says, "Starting") {
			t.Errorf("of the node is described%s", says)
		}
	})
	for _, s := range []struct {
		what, kind, name string
		uid              types.UID
		reason, says     string
	}{
		{"a Service that cannot be used as a whole", "Service", "half", half.UID, "Unusable", "spec.externalIPs[0]"},
		{"an EndpointSlice that cannot be used as a whole", "EndpointSlice", slice.Name, slice.UID, "Unusable", "ports[3].port"},
		{"a Service that is open to anyone in one family", "Service", "open", open.UID, "OpenToAnyone", balancer.Addrs[model.IPv6].String()},
		{"a Service whose address is another's", "Service", "second", second.UID, "AddressConflict", c.ns.Name + "/first"},
	} {
		t.Run(s.what, func(t *testing.T) {
			e := c.event(t, c.ns.Name, s.reason, func(e *eventsv1.Event) bool { return e.Regarding.UID == s.uid })
			if e.Regarding.Kind != s.kind || e.Regarding.Name != s.name || e.Type != corev1.EventTypeWarning || !strings.Contains(e.Note, s.says) {
				t.Errorf("the event is %+v", e)
			}
			if says := c.described(t, strings.ToLower(s.kind), s.name, "-n", c.ns.Name); !strings.Contains(says, s.says) {
				t.Errorf("of the object is described%s", says)
			}
		})
	}
	c.proxy.AwaitTruth(t) // what is left of all is served
	if n := metric(t, c.proxy, "kubevmap_refused_objects"); n < 2 {
		t.Errorf("%v refused objects are counted", n)
	}
}

// TestNetworkProgrammingLatencyIsMeasured counts for both families: the
// controller makes a slice for each, and one transaction programs both.
func TestNetworkProgrammingLatencyIsMeasured(t *testing.T) {
	t.Parallel()
	c := newOneNode(t, 1)
	ctx := clustertest.Context(t)
	c.service(t, "web")
	_, err := c.ns.CreatePod(ctx, "before", "web", c.At(c.Lab.Pods[1]))
	clustertest.Must(t, err)
	clustertest.Must(t, c.ns.AwaitEndpoints(ctx, "web", 1))
	c.proxy = c.Proxy(t, c.Lab.Node)
	c.proxy.AwaitTruth(t)
	count, sum := c.programming(t)

	// The API has the time to the second, and what was before the start does not
	// count.
	<-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	_, err = c.ns.CreatePod(ctx, "after", "web", c.At(c.Lab.Pods[0]))
	clustertest.Must(t, err)
	clustertest.Must(t, c.ns.AwaitEndpoints(ctx, "web", 2))
	c.proxy.AwaitTruth(t)
	for family, n := range count {
		now, took := c.programming(t)
		if now[family] <= n {
			t.Errorf("for %s are counted %d, then %d", family, n, now[family])
			continue
		}
		if each := (took[family] - sum[family]) / float64(now[family]-n); each < 0 || each > 10 {
			t.Errorf("for %s each took %v s", family, each)
		}
	}
}

// programming returns how many times were measured for each family, and their sum in
// seconds.
func (c *oneNode) programming(t *testing.T) (count map[string]uint64, sum map[string]float64) {
	t.Helper()
	families, err := c.proxy.Metrics()
	clustertest.Must(t, err)
	count, sum = map[string]uint64{}, map[string]float64{}
	for _, m := range families["kubeproxy_network_programming_duration_seconds"].GetMetric() {
		family := m.GetLabel()[0].GetValue()
		count[family], sum[family] = m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
	}
	if len(count) != 2 {
		t.Fatalf("families are %v", count)
	}
	return count, sum
}
