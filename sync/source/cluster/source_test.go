package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kube-vmap/model"
	"kube-vmap/sync/source/cluster"
	"kube-vmap/sync/source/cluster/apitest"
)

// filled returns a server with two Services, their slices, a node and a ServiceCIDR.
func filled() *apitest.Server {
	s := apitest.New()
	for i := range 2 {
		name := fmt.Sprintf("web-%d", i)
		s.Put(service(name, i+1), slice(name, model.IPv4, 1, 2), slice(name, model.IPv6, 3, 4, 5))
	}
	s.Put(node(), serviceCIDR("kubernetes", "10.96.0.0/16", "fd00:96::/112"))
	return s
}

const (
	nodeLine = `node node-1 "zone-1" [192.0.2.1 2001:db8::1] [invalid Prefix invalid Prefix] ""`
	all      = `cidrs [10.96.0.0/16 fd00:96::/112]
` + nodeLine + `
service default/web-0 10.96.0.1
service default/web-1 10.96.0.2
slice default/web-0-ipv4 2
slice default/web-0-ipv6 3
slice default/web-1-ipv4 2
slice default/web-1-ipv6 3`
)

func TestFirstBurstIsComplete(t *testing.T) {
	for name, prepare := range map[string]func(*apitest.Server){
		"streamed": func(*apitest.Server) {},
		"listed":   (*apitest.Server).DisableStreamedLists,
	} {
		for _, contentType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
			inBubble(t, name+","+contentType, func(t *testing.T) {
				s := filled()
				prepare(s)
				testFirstBurst(t, s, contentType)
			})
		}
	}
}

func testFirstBurst(t *testing.T, s *apitest.Server, contentType string) {
	config := s.Config()
	config.ContentType = contentType
	r := run(t, s, func(c *cluster.Config) { c.Client = clientOf(config) })
	if got := lines(r.now()); got != all {
		t.Errorf("the first burst is\n%s\nwant\n%s", got, all)
	}
	r.quiet(time.Hour)
	for want, changed := range map[string]apitest.Object{
		"service default/web-0 10.96.0.10": service("web-0", 10),
		"slice default/web-1-ipv4 1":       slice("web-1", model.IPv4, 1),
	} {
		s.Put(changed)
		if got := lines(r.now()); got != want {
			t.Errorf("the change is\n%s\nwant\n%s", got, want)
		}
	}
	r.stop()
	if r.logged("level=WARN") > 0 {
		t.Errorf("warnings:\n%s", r.log)
	}
}

func TestFirstBurstWaitsForAllKinds(t *testing.T) {
	for _, resource := range []string{"services", "endpointslices", "servicecidrs", "nodes"} {
		for _, code := range []int{401, 429, 500, 503} {
			inBubble(t, fmt.Sprintf("%s,%d", resource, code), func(t *testing.T) {
				s := filled()
				s.SetStatus(resource, code)
				r := run(t, s)
				r.quiet(10 * time.Minute)
				s.SetStatus(resource, 0)
				if got := lines(r.next(20 * time.Second)); got != all {
					t.Errorf("the first burst is\n%s\nwant\n%s", got, all)
				}
			})
		}
	}
}

func TestSelectorsAreThoseOfKubeProxy(t *testing.T) {
	checkSelectors(t, "!service.kubernetes.io/service-proxy-name")
	defer model.SetProxyName("")
	model.SetProxyName("edge")
	checkSelectors(t, "service.kubernetes.io/service-proxy-name=edge")
}

func checkSelectors(t *testing.T, services string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := filled()
		r := run(t, s)
		r.now()
		r.stop()
		want := map[string][2]string{
			"services":       {services, "spec.clusterIP!=None"},
			"endpointslices": {"!service.kubernetes.io/headless", ""},
			"servicecidrs":   {"", ""},
			"nodes":          {"", "metadata.name=node-1"},
		}
		for _, request := range s.Requests() {
			w, known := want[request.Resource]
			got := [2]string{strings.Join(request.Query["labelSelector"], ""), strings.Join(request.Query["fieldSelector"], "")}
			if !known || got != w {
				t.Errorf("%s requested with selectors %q, want %q", request.Resource, got, w)
			}
			delete(want, request.Resource)
			if !strings.HasPrefix(request.Accept, "application/vnd.kubernetes.protobuf") {
				t.Errorf("%s requested as %s", request.Resource, request.Accept)
			}
		}
		if len(want) > 0 {
			t.Errorf("not requested: %v", want)
		}
	})
}

func TestEachChangeIsSent(t *testing.T) {
	other := service("web-0", 1)
	other.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
	none := service("web-0", 1)
	none.Spec.ClusterIP, none.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	external := service("web-0", 1)
	external.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
	headless := slice("web-0", model.IPv4, 1, 2)
	headless.Labels[corev1.IsHeadlessService] = ""
	unowned := slice("web-0", model.IPv6, 3, 4, 5)
	unowned.Labels = nil
	noted := service("web-0", 1)
	noted.Annotations = map[string]string{"example.com/note": "irrelevant"}
	zoneless := node()
	zoneless.Labels = nil
	heartbeat := node()
	heartbeat.Annotations = map[string]string{"example.com/seen": "now"}
	heartbeat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
	tainted := node()
	tainted.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}

	for _, c := range []struct {
		name   string
		change func(*apitest.Server)
		want   string // nothing if empty
	}{
		{"a new Service", func(s *apitest.Server) { s.Put(service("new", 9)) }, "service default/new 10.96.0.9"},
		{"a changed Service", func(s *apitest.Server) { s.Put(service("web-0", 9)) }, "service default/web-0 10.96.0.9"},
		{"a deleted Service", func(s *apitest.Server) { s.Delete(service("web-0", 1)) }, "no service default/web-0"},
		{"a Service for another proxy", func(s *apitest.Server) { s.Put(other) }, "no service default/web-0"},
		{"a Service made headless", func(s *apitest.Server) { s.Put(none) }, "no service default/web-0"},
		{"a Service made an ExternalName", func(s *apitest.Server) { s.Put(external) }, "no service default/web-0"},
		{"a Service with an irrelevant change", func(s *apitest.Server) { s.Put(noted) }, ""},
		{"a new slice", func(s *apitest.Server) { s.Put(slice("new", model.IPv6, 1)) }, "slice default/new-ipv6 1"},
		{"a changed slice", func(s *apitest.Server) { s.Put(slice("web-0", model.IPv4, 7, 8, 9)) }, "slice default/web-0-ipv4 3"},
		{"a deleted slice", func(s *apitest.Server) { s.Delete(slice("web-0", model.IPv6)) }, "no slice default/web-0-ipv6"},
		{"a slice made headless", func(s *apitest.Server) { s.Put(headless) }, "no slice default/web-0-ipv4"},
		{"a slice without a Service", func(s *apitest.Server) { s.Put(unowned) }, "no slice default/web-0-ipv6"},
		{"a new ServiceCIDR", func(s *apitest.Server) { s.Put(serviceCIDR("more", "10.97.0.0/16")) }, "cidrs [10.96.0.0/16 10.97.0.0/16 fd00:96::/112]"},
		{"a ServiceCIDR that adds nothing", func(s *apitest.Server) { s.Put(serviceCIDR("more", "10.96.0.0/16")) }, ""},
		{"a deleted ServiceCIDR", func(s *apitest.Server) { s.Delete(serviceCIDR("kubernetes")) }, "cidrs []"},
		{"a Node without its zone", func(s *apitest.Server) { s.Put(zoneless) }, strings.ReplaceAll(nodeLine, "zone-1", "")},
		{"a Node's heartbeat", func(s *apitest.Server) { s.Put(heartbeat) }, ""},
		{
			"a Node that will be deleted", func(s *apitest.Server) { s.Put(tainted) },
			strings.ReplaceAll(nodeLine, `""`, `"the node has the taint ToBeDeletedByClusterAutoscaler"`),
		},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			r := started(t)
			c.change(r.Server)
			if c.want == "" {
				r.quiet(time.Hour)
			} else if got := lines(r.now()); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestQueuedEventsAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		// The first one is not taken, and the others are merged.
		r.Put(service("a", 11))
		synctest.Wait()
		for i := range 1000 {
			r.Put(slice("web-0", model.IPv4, i), slice("web-1", model.IPv6, i))
		}
		r.Put(service("removed", 12))
		r.Delete(service("removed", 12))
		if got, want := lines(r.now()), "service default/a 10.96.0.11"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		synctest.Wait()
		want := "no service default/removed\nslice default/web-0-ipv4 1\nslice default/web-1-ipv6 1"
		if got := lines(<-r.bursts); got != want {
			t.Errorf("then got\n%s\nwant\n%s", got, want)
		}
	})
}
