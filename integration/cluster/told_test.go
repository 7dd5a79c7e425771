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

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
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

// described is what kubectl says of the object's events.
func (c *oneNode) described(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(clustertest.Context(t), append([]string{"describe"}, args...)...)
	clustertest.Must(t, err)
	_, events, _ := strings.Cut(out, "\nEvents:")
	return events
}

func TestEventsTellWhereTheObjectIsDescribed(t *testing.T) {
	t.Parallel()
	c := newOneNode(t, 1)
	ctx := clustertest.Context(t)
	c.proxy = c.Proxy(t, c.Lab.Node)
	name := c.NodeName(c.Lab.Node)

	t.Run("the start of the proxy", func(t *testing.T) {
		e := c.event(t, "default", "Starting", func(e *eventsv1.Event) bool { return e.Regarding.Name == name })
		if e.Regarding.Kind != "Node" || e.Type != corev1.EventTypeNormal || e.ReportingController != "kube-vmap" {
			t.Errorf("the event is %+v", e)
		}
		if says := c.described(t, "node", name); !strings.Contains(says, "Starting") {
			t.Errorf("of the node is described%s", says)
		}
	})
	t.Run("a Service that cannot be used as a whole", func(t *testing.T) {
		single := corev1.IPFamilyPolicySingleStack
		s := objects.Service("half", objects.Ports(port, targetPort)...)
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &single, s.Spec.IPFamilies[:1]
		s.Spec.ExternalIPs = []string{"2001:db8::7"} // the Service has no IPv6
		s, err := c.ns.CreateService(ctx, s)
		clustertest.Must(t, err)
		e := c.event(t, c.ns.Name, "Unusable", func(e *eventsv1.Event) bool { return e.Regarding.UID == s.UID })
		if e.Regarding.Kind != "Service" || e.Regarding.Name != "half" || e.Type != corev1.EventTypeWarning ||
			!strings.Contains(e.Note, "spec.externalIPs[0]") {
			t.Errorf("the event is %+v", e)
		}
		if says := c.described(t, "service", "half", "-n", c.ns.Name); !strings.Contains(says, "spec.externalIPs[0]") {
			t.Errorf("of the Service is described%s", says)
		}
	})
	t.Run("an EndpointSlice that cannot be used as a whole", func(t *testing.T) {
		c.service(t, "slices", func(s *corev1.Service) { s.Spec.Selector = nil })
		s := slicesOf("slices", c.Lab.Pods[:1])[0]
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new("every-port")})
		s, err := c.ns.CreateSlice(ctx, s)
		clustertest.Must(t, err)
		e := c.event(t, c.ns.Name, "Unusable", func(e *eventsv1.Event) bool { return e.Regarding.UID == s.UID })
		if e.Regarding.Kind != "EndpointSlice" || e.Regarding.Name != s.Name || !strings.Contains(e.Note, "ports[3].port") {
			t.Errorf("the event is %+v", e)
		}
		if says := c.described(t, "endpointslice", s.Name, "-n", c.ns.Name); !strings.Contains(says, "ports[3].port") {
			t.Errorf("of the EndpointSlice is described%s", says)
		}
	})
	c.proxy.AwaitTruth(t) // what is left of both is served
	if n := metric(t, c.proxy, "kubevmap_refused_objects"); n < 2 {
		t.Errorf("%v refused objects are counted", n)
	}
}

// TestTheTimeFromAPodsReadinessToTheKernelIsMeasured counts for both families: the
// controller makes a slice for each, and one transaction programs both.
func TestTheTimeFromAPodsReadinessToTheKernelIsMeasured(t *testing.T) {
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

// programming is how many times were measured for each family, and their sum in
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
