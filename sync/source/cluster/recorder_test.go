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

	eventsv1 "k8s.io/api/events/v1"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/source/cluster"
	"kube-vmap/sync/source/cluster/apitest"
)

// recording runs a recorder during do and for a while after, and returns the events.
func recording(t *testing.T, s *apitest.Server, after time.Duration, do func(*cluster.Recorder)) []eventsv1.Event {
	t.Helper()
	r := cluster.NewRecorder(clientOf(s.Config()), "node-1", slog.New(slog.DiscardHandler))
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

// text returns the fields of an event in a line.
func text(e *eventsv1.Event) string {
	o := &e.Regarding
	return fmt.Sprintf("%s: %s %s %s/%s %s, %s %s by %s: %s", e.Namespace, o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID,
		e.Type, e.Reason, e.Action, e.Note)
}

func TestEventFields(t *testing.T) {
	warn := func(o sync.Object, reason, note string) func(*testing.T, *cluster.Recorder) {
		return func(_ *testing.T, r *cluster.Recorder) { r.Warn(o, reason, note) }
	}
	for name, c := range map[string]struct {
		record func(*testing.T, *cluster.Recorder)
		want   string
	}{
		"a Service": {
			warn(sync.Object{Kind: "Service", Namespace: "shop", Name: "web", UID: "1"}, "Unusable", "with 100%"),
			"shop: v1 Service shop/web 1, Warning Unusable by ProgramRules: with 100%",
		},
		"a long note": {
			warn(sync.Object{Kind: "EndpointSlice", Namespace: "shop", Name: "web-1", UID: "2"}, "Unusable", strings.Repeat("ä", 600)),
			"shop: discovery.k8s.io/v1 EndpointSlice shop/web-1 2, Warning Unusable by ProgramRules: " + strings.Repeat("ä", 510) + "...",
		},
		"a cluster-scoped object": {
			warn(sync.Object{Kind: "ServiceCIDR", Name: "more", UID: "3"}, "Unusable", "bad"),
			"default: networking.k8s.io/v1 ServiceCIDR /more 3, Warning Unusable by ProgramRules: bad",
		},
		"a Node without a UID": {
			warn(sync.Object{Kind: "Node", Name: "node-1"}, "Unusable", "bad"),
			"default: v1 Node /node-1 node-1, Warning Unusable by ProgramRules: bad",
		},
		"a Node": {
			warn(sync.Object{Kind: "Node", Name: "node-1", UID: "4"}, "Unusable", "bad"),
			"default: v1 Node /node-1 4, Warning Unusable by ProgramRules: bad",
		},
		"a port": {
			warn(sync.Object{Kind: "Service", Namespace: "shop", Name: "web"}, model.ProblemHealthCheck, "in use"),
			"shop: v1 Service shop/web , Warning " + model.ProblemHealthCheck + " by Listen: in use",
		},
		"the start": {
			func(_ *testing.T, r *cluster.Recorder) { r.Starting() },
			"default: v1 Node /node-1 node-1, Normal Starting by StartKubeVmap: ",
		},
		"a failed start": {
			func(t *testing.T, r *cluster.Recorder) {
				if err := r.FailedToStart(t.Context(), cluster.ReasonHealthServer, "the port is in use"); err != nil {
					t.Error(err)
				}
			},
			"default: v1 Node /node-1 node-1, Warning FailedToStartProxierHealthcheck by StartKubeVmap: the port is in use",
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			events := recording(t, apitest.New(), time.Minute, func(r *cluster.Recorder) { c.record(t, r) })
			if len(events) != 1 {
				t.Fatalf("%d events", len(events))
			}
			e := events[0]
			if got := text(&e); got != c.want || e.EventTime.IsZero() {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if e.ReportingController != "kube-vmap" || !strings.HasPrefix(e.ReportingInstance, "kube-vmap-") {
				t.Errorf("reported by %s of %s", e.ReportingInstance, e.ReportingController)
			}
		})
	}
	inBubble(t, "by a proxy with a name", func(t *testing.T) {
		defer model.SetProxyName("")
		model.SetProxyName("edge")
		for _, e := range recording(t, apitest.New(), time.Minute, (*cluster.Recorder).Starting) {
			if e.ReportingController != "kube-vmap.edge" || !strings.HasPrefix(e.ReportingInstance, "kube-vmap.edge-") {
				t.Errorf("reported by %s of %s", e.ReportingInstance, e.ReportingController)
			}
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
		{"Unusable", map[time.Duration][2]int{time.Second: {0, 3}, 35 * time.Second: {3, 6}, 20 * time.Minute: {110, 123}}},
		{"AddressConflict", map[time.Duration][2]int{time.Second: {0, 3}, 35 * time.Second: {3, 6}, 20 * time.Minute: {110, 123}}},
		{"RefusedByKernel", map[time.Duration][2]int{time.Second: {0, 3}, 35 * time.Second: {3, 6}, 20 * time.Minute: {110, 123}}},
		{model.ProblemHealthCheck, map[time.Duration][2]int{time.Second: {10, 11}, time.Minute: {65, 71}}},
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

// TestClusterWideEventsAreSpread runs many recorders for the same object.
func TestClusterWideEventsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		const nodes = 200
		for i := range nodes {
			r := cluster.NewRecorder(clientOf(s.Config()), fmt.Sprint("node-", i), slog.New(slog.DiscardHandler))
			r.Warn(sync.Object{Kind: "Service", Namespace: "shop", Name: "web"}, "Unusable", "bad")
			go func() { done <- r.Run(ctx) }()
		}
		for _, want := range [][2]int{{30, 110}, {90, 180}, {nodes, nodes}} {
			<-time.After(10 * time.Second)
			synctest.Wait()
			if got := len(s.Events()); got < want[0] || got > want[1] {
				t.Errorf("%d events after ten more seconds, want %d to %d", got, want[0], want[1])
			}
		}
		cancel()
		for range nodes {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestEventFloodIsBoundedByNamespace checks that a flood of events in one namespace does
// not keep out another's, and that the node's own events do not wait for it.
func TestEventFloodIsBoundedByNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		events := recording(t, s, 10*time.Minute, func(r *cluster.Recorder) {
			start := time.Now()
			for i := range 10000 {
				r.Warn(sync.Object{Kind: "Service", Namespace: "flood", Name: fmt.Sprint(i)}, "Unusable", "bad")
			}
			r.Warn(sync.Object{Kind: "Service", Namespace: "quiet", Name: "web"}, "Unusable", "bad")
			if took := time.Since(start); took > 0 {
				t.Errorf("Warn blocked for %s", took)
			}
			<-time.After(10 * time.Second)
			r.Starting()
			<-time.After(time.Millisecond)
			isStart := func(e eventsv1.Event) bool { return e.Reason == cluster.ReasonStarting }
			if !slices.ContainsFunc(s.Events(), isStart) {
				t.Error("the event of the node waits")
			}
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
