package cluster_test

import (
	"context"
	"fmt"
	"log/slog"
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

// recording runs a recorder while do does something, and for a while after.
func recording(t *testing.T, s *apitest.Server, after time.Duration, do func(*cluster.Recorder)) []eventsv1.Event {
	t.Helper()
	r := cluster.NewRecorder(s.Client(), "node-1", slog.New(slog.DiscardHandler))
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

func TestEventsSayWhatTheAPIDemands(t *testing.T) {
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
			cluster.ReasonServiceHealthServer, "in use",
			corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "web"},
			"shop", "Listen",
		},
	} {
		t.Run(c.object.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events := recording(t, apitest.New(), time.Second, func(r *cluster.Recorder) { r.Warn(c.object, c.reason, c.note) })
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
		})
	}
}

func TestTheStartOfAProxyIsAnEventOfItsNode(t *testing.T) {
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

func TestEventsThatSayTheSameAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := sync.Object{Kind: "Service", Namespace: "shop", Name: "web", UID: "1"}
		events := recording(t, apitest.New(), time.Minute, func(r *cluster.Recorder) {
			for range 50 {
				r.Warn(object, "Unusable", "bad")
				<-time.After(time.Second)
			}
		})
		if len(events) != 1 || events[0].Series == nil {
			t.Errorf("events: %v", events)
		}
	})
}

func TestEventsWaitForTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		s.Down(true)
		events := recording(t, s, time.Minute, func(r *cluster.Recorder) {
			r.Warn(sync.Object{Kind: "Service", Namespace: "shop", Name: "web"}, "Unusable", "bad")
			<-time.After(time.Minute)
			s.Down(false)
		})
		if len(events) != 1 {
			t.Errorf("%d events", len(events))
		}
	})
}

func TestAFloodOfEventsIsNeitherWaitedForNorSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := recording(t, apitest.New(), time.Hour, func(r *cluster.Recorder) {
			start := time.Now()
			for i := range 10000 {
				r.Warn(sync.Object{Kind: "Service", Namespace: "shop", Name: fmt.Sprint(i)}, "Unusable", "bad")
			}
			if took := time.Since(start); took > 0 {
				t.Errorf("it took %s to say it all", took)
			}
			<-time.After(10 * time.Second)
		})
		if len(events) < 200 || len(events) > 300 {
			t.Errorf("%d events", len(events))
		}
	})
}
