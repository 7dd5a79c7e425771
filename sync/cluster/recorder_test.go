package cluster_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"kube-vmap/sync"
	"kube-vmap/sync/cluster"
	"kube-vmap/sync/cluster/apitest"
)

// recording runs a recorder during do and for a while after, and returns the events.
func recording(t *testing.T, s *apitest.Server, after time.Duration, do func(*cluster.Recorder)) []eventsv1.Event {
	t.Helper()
	r := cluster.NewRecorder(clientOf(s), "node-1", slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	do(r)
	<-time.After(after)
	synctest.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return s.Events()
}

func TestEventFields(t *testing.T) {
	long := strings.Repeat("ä", 600)
	for _, c := range []struct {
		object    sync.Object
		reason    string
		note      string
		regarding corev1.ObjectReference
		namespace string
		action    string
	}{
		{
			sync.Object{Kind: "Service", Namespace: "shop", Name: "web", UID: "1"},
			"Unusable", "a sentence with 100%",
			corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "web", UID: "1"},
			"shop", "ProgramRules",
		},
		{
			sync.Object{Kind: "EndpointSlice", Namespace: "shop", Name: "web-1", UID: "2"},
			"Unusable", long,
			corev1.ObjectReference{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice", Namespace: "shop", Name: "web-1", UID: "2"},
			"shop", "ProgramRules",
		},
		{
			sync.Object{Kind: "ServiceCIDR", Name: "more", UID: "3"},
			"Unusable", "bad",
			corev1.ObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR", Name: "more", UID: "3"},
			"default", "ProgramRules",
		},
		{
			sync.Object{Kind: "Node", Name: "node-1"},
			"Unusable", "bad",
			corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "node-1"},
			"default", "ProgramRules",
		},
		{
			sync.Object{Kind: "Node", Name: "node-1", UID: "4"},
			"Unusable", "bad",
			corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "4"},
			"default", "ProgramRules",
		},
		{
			sync.Object{Kind: "Service", Namespace: "shop", Name: "web"},
			sync.ReasonHealthCheck, "in use",
			corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "web"},
			"shop", "Listen",
		},
	} {
		inBubble(t, c.object.String(), func(t *testing.T) {
			events := recording(t, apitest.New(), time.Minute, func(r *cluster.Recorder) { r.Warn(c.object, c.reason, c.note) })
			if len(events) != 1 {
				t.Fatalf("%d events", len(events))
			}
			e := events[0]
			if e.Regarding != c.regarding || e.Namespace != c.namespace {
				t.Errorf("regarding %v in %s", e.Regarding, e.Namespace)
			}
			if e.Type != corev1.EventTypeWarning || e.Reason != c.reason || e.Action != c.action || e.EventTime.IsZero() {
				t.Errorf("%+v", e)
			}
			if e.ReportingController != "kube-vmap" || !strings.HasPrefix(e.ReportingInstance, "kube-vmap-") {
				t.Errorf("reported by %s of %s", e.ReportingInstance, e.ReportingController)
			}
			if len(e.Note) > 1024 || !utf8.ValidString(e.Note) || e.Note != c.note && len(c.note) < 1024 {
				t.Errorf("note of %d bytes: %s", len(e.Note), e.Note)
			}
		})
	}
}

func TestStartEventsAreAboutTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		events := recording(t, s, time.Second, func(r *cluster.Recorder) {
			r.Starting()
			if err := r.FailedToStart(t.Context(), cluster.ReasonHealthServer, "the port is in use"); err != nil {
				t.Error(err)
			}
		})
		var got []string
		for _, e := range events {
			got = append(got, fmt.Sprintln(e.Namespace, e.Regarding.Kind, e.Regarding.Name, e.Type, e.Reason, e.Action, e.ReportingController, e.Note))
		}
		slices.Sort(got)
		want := "default Node node-1 Normal Starting StartKubeVmap kube-vmap \n" +
			"default Node node-1 Warning FailedToStartProxierHealthcheck StartKubeVmap kube-vmap the port is in use\n"
		if strings.Join(got, "") != want {
			t.Errorf("events\n%s\nwant\n%s", strings.Join(got, ""), want)
		}
	})
}

func TestEqualEventsBecomeASeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := sync.Object{Kind: "Service", Namespace: "shop", Name: "web", UID: "1"}
		events := recording(t, apitest.New(), time.Minute, func(r *cluster.Recorder) {
			for range 50 {
				r.Warn(object, "Unusable", "bad")
				<-time.After(time.Second)
			}
		})
		if len(events) != 1 || events[0].Series == nil || bits.OnesCount32(uint32(events[0].Series.Count)) != 1 {
			t.Errorf("events: %v", events)
		}
	})
}

func TestEventsWaitForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		s.SetDown(true)
		events := recording(t, s, time.Minute, func(r *cluster.Recorder) {
			r.Warn(sync.Object{Kind: "Service", Namespace: "shop", Name: "web"}, "Unusable", "bad")
			<-time.After(time.Minute)
			s.SetDown(false)
		})
		if len(events) != 1 {
			t.Errorf("%d events", len(events))
		}
	})
}

func TestEventRates(t *testing.T) {
	for _, c := range []struct {
		reason string
		counts map[time.Duration][2]int // least and most events by then
	}{
		{"Unusable", map[time.Duration][2]int{time.Second: {0, 1}, 35 * time.Second: {3, 6}, 20 * time.Minute: {110, 123}}},
		{"AddressConflict", map[time.Duration][2]int{time.Second: {0, 1}, 35 * time.Second: {3, 6}, 20 * time.Minute: {110, 123}}},
		{"RefusedByKernel", map[time.Duration][2]int{time.Second: {10, 11}, time.Minute: {65, 71}}},
		{sync.ReasonHealthCheck, map[time.Duration][2]int{time.Second: {10, 11}, time.Minute: {65, 71}}},
	} {
		for after, want := range c.counts {
			inBubble(t, fmt.Sprint(c.reason, " after ", after), func(t *testing.T) {
				events := recording(t, apitest.New(), after, func(r *cluster.Recorder) {
					for i := range 200 {
						r.Warn(sync.Object{Kind: "Service", Namespace: fmt.Sprint("shop-", i%50), Name: fmt.Sprint(i)}, c.reason, "bad")
					}
				})
				if len(events) < want[0] || len(events) > want[1] {
					t.Errorf("%d events, want %d to %d", len(events), want[0], want[1])
				}
			})
		}
	}
}

func TestLocalEventsDoNotWaitForClusterWideOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := recording(t, apitest.New(), 0, func(r *cluster.Recorder) {
			for i := range 200 {
				r.Warn(sync.Object{Kind: "Service", Namespace: "shop", Name: fmt.Sprint(i)}, "Unusable", "bad")
			}
			<-time.After(10 * time.Minute)
			r.Starting()
			<-time.After(time.Millisecond)
		})
		if !slices.ContainsFunc(events, func(e eventsv1.Event) bool { return e.Reason == cluster.ReasonStarting }) {
			t.Error("the local event waits")
		}
	})
}

// TestClusterWideEventsAreSpread runs many recorders for the same object.
func TestClusterWideEventsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		counts := map[time.Duration]int{}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		const nodes = 200
		for i := range nodes {
			r := cluster.NewRecorder(clientOf(s), fmt.Sprint("node-", i), slog.New(slog.DiscardHandler))
			r.Warn(sync.Object{Kind: "Service", Namespace: "shop", Name: "web"}, "Unusable", "bad")
			go func() { done <- r.Run(ctx) }()
		}
		for _, after := range []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second} {
			<-time.After(10 * time.Second)
			synctest.Wait()
			counts[after] = len(s.Events())
		}
		cancel()
		for range nodes {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		for after, want := range map[time.Duration][2]int{10 * time.Second: {30, 110}, 20 * time.Second: {90, 180}, 30 * time.Second: {nodes, nodes}} {
			if got := counts[after]; got < want[0] || got > want[1] {
				t.Errorf("%d events after %s, want %d to %d", got, after, want[0], want[1])
			}
		}
	})
}

// TestEventFloodIsBoundedByNamespace checks that a flood of events in one namespace does
// not keep out those of another.
func TestEventFloodIsBoundedByNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := recording(t, apitest.New(), 10*time.Minute, func(r *cluster.Recorder) {
			start := time.Now()
			for i := range 10000 {
				r.Warn(sync.Object{Kind: "Service", Namespace: "flood", Name: fmt.Sprint(i)}, "Unusable", "bad")
			}
			r.Warn(sync.Object{Kind: "Service", Namespace: "quiet", Name: "web"}, "Unusable", "bad")
			if took := time.Since(start); took > 0 {
				t.Errorf("Warn blocked for %s", took)
			}
			<-time.After(10 * time.Second)
		})
		of := map[string]int{}
		for _, e := range events {
			of[e.Regarding.Namespace]++
		}
		if of["flood"] < 8 || of["flood"] > 10 || of["quiet"] != 1 {
			t.Errorf("events by namespace: %v", of)
		}
	})
}
