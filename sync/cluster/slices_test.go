package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/cluster/apitest"
)

// refusedSince is a slice of so many endpoints whose last change was triggered then.
func since(t time.Time, endpoints int) *discoveryv1.EndpointSlice {
	s := slice("web-0", model.IPv4, make([]int, endpoints)...)
	for i := range s.Endpoints {
		s.Endpoints[i].Addresses = []string{fmt.Sprintf("10.1.9.%d", i+1)}
	}
	s.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: t.Format(time.RFC3339Nano)}
	return s
}

// triggerTime is when the one slice of a burst was.
func triggered(t *testing.T, events []sync.Event) time.Time {
	t.Helper()
	if e, ok := events[0].(sync.SetSlice); ok && len(events) == 1 {
		return e.Triggered
	}
	t.Fatalf("told %s", lines(events))
	return time.Time{}
}

func TestAChangeOfASliceComesWithItsTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := filled()
		s.Put(since(time.Now().Add(time.Hour), 1))
		r := run(t, s)
		for _, e := range r.now() {
			if e, ok := e.(sync.SetSlice); ok && !e.Triggered.IsZero() {
				t.Errorf("a slice that was there before was triggered %s", e.Triggered)
			}
		}
		r.quiet(time.Hour)
		now := time.Now()
		for _, c := range []struct {
			name    string
			trigger time.Time
			want    time.Time
		}{
			{"seen in the first list", now, time.Time{}},
			{"new", now.Add(-time.Second), now.Add(-time.Second)},
			{"told before", now.Add(-time.Second), time.Time{}},
			{"of another clock", now.Add(time.Second), time.Time{}},
			{"from before the start", now.Add(-2 * time.Hour), time.Time{}},
			{"new again", now.Add(-time.Millisecond), now.Add(-time.Millisecond)},
			{"none", time.Time{}, time.Time{}},
		} {
			endpoints := 2 + len(c.name)
			r.Put(since(c.trigger, endpoints))
			if got := triggered(t, r.now()); !got.Equal(c.want) {
				t.Errorf("%s: triggered %s, want %s", c.name, got, c.want)
			}
		}
		garbled := since(now, 1)
		garbled.Annotations[corev1.EndpointsLastChangeTriggerTime] = "yesterday"
		r.Put(garbled)
		if got := triggered(t, r.now()); !got.IsZero() {
			t.Errorf("triggered %s by what cannot be read", got)
		}
		r.stop()
	})
}

func TestWhatIsInTheFirstListIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := filled()
		s.SetStatus("endpointslices", 503)
		r := run(t, s)
		r.quiet(time.Hour)
		s.Put(since(time.Now(), 1))
		r.quiet(time.Minute)
		s.SetStatus("endpointslices", 0)
		for _, e := range r.next(20 * time.Second) {
			if e, ok := e.(sync.SetSlice); ok && !e.Triggered.IsZero() {
				t.Errorf("slice %s was triggered %s", e.Slice.Name, e.Triggered)
			}
		}
		r.stop()
	})
}

func TestAChangeThatWaitedKeepsTheFirstTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, filled())
		r.now()
		first := time.Now()
		r.Put(service("a", 11)) // which nobody takes yet
		r.quietly(time.Second)
		for i := range 3 {
			r.Put(since(time.Now(), 3+i))
			r.quietly(time.Second)
		}
		r.now()
		if got := triggered(t, r.now()); !got.Equal(first.Add(time.Second)) {
			t.Errorf("triggered %s after the first, want 1s", got.Sub(first))
		}
		r.stop()
	})
}

func TestProblemsAreToldUntilThereAreNone(t *testing.T) {
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
	noted.Annotations = map[string]string{"example.com/note": "of no concern"}

	const before, after = "problem of Service default/web-0 00000000-0000-0000-0000-000000000002: ", "problem of Service default/web-0 another: "
	loopback := "spec.externalIPs[0]: Invalid value: \"127.0.0.%d\": may not be in the loopback range (127.0.0.0/8, ::1/128)"
	synctest.Test(t, func(t *testing.T) {
		r := run(t, filled())
		r.now()
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
			{"gone", func(s *apitest.Server) { s.Delete(again) }, "no service default/web-0\n" + after + "<nil>"},
			{"bad from the start", func(s *apitest.Server) { s.Put(refused) }, "?"},
			{"gone in a new list", func(s *apitest.Server) { s.SetDown(true); s.Delete(refused); s.Compact(); s.SetDown(false) }, "?"},
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
				t.Errorf("%s: told\n%s\nwant\n%s", c.name, got, c.want)
			}
		}
		r.quiet(time.Hour)
		r.stop()
	})
}
