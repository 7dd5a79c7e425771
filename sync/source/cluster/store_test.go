package cluster_test

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/source/cluster/apitest"
)

// triggeredAt returns a slice with so many endpoints and that trigger.
func triggeredAt(t time.Time, endpoints int) *discoveryv1.EndpointSlice {
	s := slice("web-0", model.IPv4, make([]int, endpoints)...)
	for i := range s.Endpoints {
		s.Endpoints[i].Addresses = []string{fmt.Sprintf("10.1.9.%d", i+1)}
	}
	s.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: t.Format(time.RFC3339Nano)}
	return s
}

// triggered returns the trigger of a burst's only slice.
func triggered(t *testing.T, events []sync.Event) time.Time {
	t.Helper()
	if e, ok := events[0].(sync.SetSlice); ok && len(events) == 1 {
		return e.Triggered
	}
	t.Fatalf("got %s", lines(events))
	return time.Time{}
}

func TestSliceEventsHaveTheirTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := filled()
		s.SetStatus("endpointslices", 503)
		r := run(t, s)
		r.quiet(time.Hour)
		listed := time.Now()
		s.Put(triggeredAt(listed, 1))
		r.quiet(time.Minute)
		s.SetStatus("endpointslices", 0)
		for _, e := range r.next(20 * time.Second) {
			if e, ok := e.(sync.SetSlice); ok && !e.Triggered.IsZero() {
				t.Errorf("in the first list, slice %s has the trigger %s", e.Slice.Name, e.Triggered)
			}
		}
		r.quiet(time.Hour)
		now := time.Now()
		for _, c := range []struct {
			name    string
			trigger time.Time
			want    time.Time
		}{
			{"seen in the first list", listed, time.Time{}},
			{"new", now.Add(-time.Second), now.Add(-time.Second)},
			{"seen before", now.Add(-time.Second), time.Time{}},
			{"of another clock", now.Add(time.Second), time.Time{}},
			{"from before the start", now.Add(-3 * time.Hour), time.Time{}},
			{"new again", now.Add(-time.Millisecond), now.Add(-time.Millisecond)},
			{"none", time.Time{}, time.Time{}},
		} {
			endpoints := 2 + len(c.name)
			r.Put(triggeredAt(c.trigger, endpoints))
			if got := triggered(t, r.now()); !got.Equal(c.want) {
				t.Errorf("%s: triggered %s, want %s", c.name, got, c.want)
			}
		}
		garbled := triggeredAt(now, 1)
		garbled.Annotations[corev1.EndpointsLastChangeTriggerTime] = "yesterday"
		r.Put(garbled)
		if got := triggered(t, r.now()); !got.IsZero() {
			t.Errorf("an invalid annotation gives the trigger %s", got)
		}
	})
}

func TestMergedEventsKeepTheFirstTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		first := time.Now()
		r.Put(service("a", 11)) // not taken yet
		r.pass(time.Second)
		for i := range 3 {
			r.Put(triggeredAt(time.Now(), 3+i))
			r.pass(time.Second)
		}
		r.now()
		if got := triggered(t, r.now()); !got.Equal(first.Add(time.Second)) {
			t.Errorf("triggered %s after the first, want 1s", got.Sub(first))
		}
	})
}

func TestProblemsAreSentAndCleared(t *testing.T) {
	bad := service("web-0", 1)
	bad.Spec.ExternalIPs = []string{"127.0.0.1"}
	worse := service("web-0", 1)
	worse.Spec.ExternalIPs = []string{"127.0.0.2"}
	refused := service("web-0", 1)
	refused.Spec.ClusterIP, refused.Spec.ClusterIPs = "10.96.0.300", nil
	again := service("web-0", 1)
	again.Spec.ExternalIPs = []string{"127.0.0.1"}
	again.UID = "another"
	noted := again.DeepCopy()
	noted.Annotations = map[string]string{"example.com/note": "irrelevant"}

	const before, after = "problem of Service default/web-0 00000000-0000-0000-0000-000000000002: ", "problem of Service default/web-0 another: "
	loopback := "spec.externalIPs[0]: Invalid value: \"127.0.0.%d\": may not be in the loopback range (127.0.0.0/8, ::1/128)"
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		for _, c := range []struct {
			name   string
			change func(*apitest.Server)
			want   string
		}{
			{"a bad part", func(s *apitest.Server) { s.Put(bad) }, before + fmt.Sprintf(loopback, 1)},
			{"another one", func(s *apitest.Server) { s.Put(worse) }, before + fmt.Sprintf(loopback, 2)},
			{"none", func(s *apitest.Server) { s.Put(service("web-0", 1)) }, before + "<nil>"},
			{"a bad whole", func(s *apitest.Server) { s.Put(refused) }, "no service default/web-0\n?"},
			{"none again", func(s *apitest.Server) { s.Put(service("web-0", 1)) }, before + "<nil>\nservice default/web-0 10.96.0.1"},
			{"a bad part again", func(s *apitest.Server) { s.Put(bad) }, before + fmt.Sprintf(loopback, 1)},
			{"another object", func(s *apitest.Server) { s.Put(again) }, before + "<nil>\n" + after + fmt.Sprintf(loopback, 1) + "\nservice default/web-0 10.96.0.1"},
			{"nothing new", func(s *apitest.Server) { s.Put(noted) }, ""},
			{"a new list", func(s *apitest.Server) { s.SetDown(true); s.Compact(); s.SetDown(false) }, ""},
			{"removed", func(s *apitest.Server) { s.Delete(again) }, "no service default/web-0\n" + after + "<nil>"},
			{"bad from the start", func(s *apitest.Server) { s.Put(refused) }, "?"},
			{"removed in a new list", func(s *apitest.Server) { s.SetDown(true); s.Delete(refused); s.Compact(); s.SetDown(false) }, "?"},
		} {
			c.change(r.Server)
			if c.want == "" {
				r.quiet(time.Hour)
				continue
			}
			events := r.next(20 * time.Second)
			got := lines(events)
			if rest, some := strings.CutSuffix(c.want, "?"); some && strings.HasPrefix(got, rest+"problem of ") {
				continue
			}
			if got != c.want {
				t.Errorf("%s: sent\n%s\nwant\n%s", c.name, got, c.want)
			}
		}
		r.quiet(time.Hour)
	})
}

// TestUnusableObjectReplacesUsableOne makes an object invalid, then deletes and creates
// it again while no watch runs.
func TestUnusableObjectReplacesUsableOne(t *testing.T) {
	badService := service("web-0", 50)
	badService.Spec.Ports = nil
	cases := map[string]struct {
		good, bad apitest.Object
		removed   string
	}{
		"Service":     {service("web-0", 1), badService, "no service default/web-0"},
		"ServiceCIDR": {serviceCIDR("kubernetes", "10.96.0.0/16", "fd00:96::/112"), serviceCIDR("kubernetes", "10.96.0.0/33"), "cidrs []"},
	}
	for _, f := range model.Families {
		bad := slice("web-0", f, 1)
		bad.AddressType = discoveryv1.AddressType("Odd")
		good := slice("web-0", f, 1, 2)
		cases["EndpointSlice of "+f.String()] = struct {
			good, bad apitest.Object
			removed   string
		}{good, bad, "no slice default/" + good.Name}
	}
	for name, c := range cases {
		inBubble(t, name, func(t *testing.T) {
			s := filled()
			s.Put(c.good)
			r := run(t, s)
			r.now()
			s.Put(c.bad) // with the same UID
			if got := lines(r.now()); !strings.Contains(got, c.removed) || strings.Count(got, "problem of ") != 1 {
				t.Errorf("got %s, want %s", got, c.removed)
			}
			s.SetDown(true)
			s.Delete(c.bad)
			s.Put(c.bad)
			s.Compact()
			s.SetDown(false)
			got := lines(r.next(20 * time.Second))
			if strings.Count(got, "problem of ") != strings.Count(got, "\n")+1 {
				t.Errorf("created again: got %s, want problems only", got)
			}
			r.quiet(time.Hour)
		})
	}
}

// TestRecreatedObjectIsOneEvent deletes and creates an object while no watch runs.
func TestRecreatedObjectIsOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		r.SetDown(true)
		r.Delete(slice("web-0", model.IPv4), slice("web-0", model.IPv6), slice("web-1", model.IPv6))
		r.Put(slice("web-0", model.IPv4, 1, 2), slice("web-0", model.IPv6, 9), slice("web-1", model.IPv6, 3, 4, 5))
		r.Compact()
		r.SetDown(false)
		if got, want := lines(r.next(20*time.Second)), "slice default/web-0-ipv6 1"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		r.quiet(time.Hour)
	})
}

// TestReregisteredNodeKeepsItsFields has a kubelet that registers its node again, and does not set
// everything immediately.
func TestReregisteredNodeKeepsItsFields(t *testing.T) {
	bare := node()
	bare.Labels, bare.Status = nil, corev1.NodeStatus{}
	moved := node()
	moved.Labels[corev1.LabelTopologyZone] = "zone-2"
	there := strings.ReplaceAll(nodeLine, "zone-1", "zone-2")
	inBubble(t, "watched", func(t *testing.T) {
		r := started(t)
		r.Put(withPodCIDRs(node()))
		present := lines(r.now())
		removed := strings.TrimSuffix(present, `""`) + `"there is no Node object node-1"`
		for range 2 {
			r.Delete(node())
			if got := lines(r.now()); got != removed {
				t.Errorf("got %s, want %s", got, removed)
			}
			r.Put(bare)
			if got := lines(r.now()); got != present {
				t.Errorf("got %s, want %s", got, present)
			}
			tainted := bare.DeepCopy()
			tainted.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
			r.Put(tainted)
			if got := lines(r.now()); !strings.Contains(got, "zone-1") {
				t.Errorf("without a zone still, sent %s", got)
			}
			r.Put(node())
			r.now()
		}
		r.Put(moved)
		if got, want := lines(r.now()), strings.ReplaceAll(present, "zone-1", "zone-2"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		r.Put(bare) // not deleted before
		if got, want := lines(r.now()), strings.ReplaceAll(present, "zone-1", ""); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	inBubble(t, "not watched", func(t *testing.T) {
		r := started(t)
		r.SetDown(true)
		r.Delete(node())
		r.Put(bare)
		r.Compact()
		r.SetDown(false)
		if changes := r.within(time.Minute); changes != nil && lines(changes) != nodeLine {
			t.Errorf("got %s, want nothing new", lines(changes))
		}
		r.Put(moved)
		if got := lines(r.now()); got != there {
			t.Errorf("got %s, want %s", got, there)
		}
	})
}

// TestSourceKeepsLittle measures the heap of a source after its first burst, including the burst.
// integration/cluster compares it with informers of the same objects.
func TestSourceKeepsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const services = 2000
		s := apitest.New()
		for i := range services {
			fill(s, i)
		}
		s.Put(node())
		before := heap()
		r := run(t, s)
		first := r.now()
		if kept := (heap() - before) / services; kept > 4000 {
			t.Errorf("the source keeps %d bytes of a Service with ten endpoints, want 4000 at most", kept)
		}
		runtime.KeepAlive(first)
	})
}

// fill adds a Service with ten endpoints, as controllers create them.
func fill(s *apitest.Server, i int) {
	name := fmt.Sprintf("service-%d", i)
	service, slice := service(name, i+1), slice(name, model.IPv4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	for j := range slice.Endpoints {
		slice.Endpoints[j].TargetRef = &corev1.ObjectReference{
			Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("%s-5d4f8c7b9-%05d", name, j),
			UID: "8d0e2b5c-6a4e-4a0e-9a55-3a1d3b0c9f10",
		}
		slice.Endpoints[j].NodeName = ptr.To(fmt.Sprintf("node-%d.example.com", (i*10+j)%500))
	}
	for _, o := range []apitest.Object{service, slice} {
		labels := map[string]string{"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop"}
		maps.Copy(labels, o.GetLabels())
		o.SetLabels(labels)
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(strings.Repeat("{", 400)),
		}})
	}
	s.Put(service, slice)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
