package build_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/cmd/inspect/nodestatus/statustest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/hold"
	"kube-vmap/sync/follow/passivehealth"
)

// shown returns the share, weight and reason of each endpoint in a document, and whether it is used.
func shown(d *nodestatus.Document) (out []string) {
	port := &d.Services[0].Ports[0]
	for i := range port.Endpoints {
		e := &port.Endpoints[i]
		percent, uneven := port.SharePercents()(e)
		out = append(out, fmt.Sprint(e.Share, " ", percent, " ", uneven, " ", e.Weight, " ", e.Reason, " ", e.Used()))
	}
	return out
}

// TestSharesAndWeightsAreShown has three endpoints with shares, of which one has none, and endpoints
// of weight 6, of 3, of none, and a drained one.
func TestSharesAndWeightsAreShown(t *testing.T) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			check := func(d *nodestatus.Document, want ...string) {
				t.Helper()
				if got := shown(d); !slices.Equal(got, want) {
					t.Errorf("%s, %s, %s: %q, want %q", d.Source, f, p, got, want)
				}
			}
			c := config
			c.Overlays, c.Scheduler = make(chan []model.Overlay), model.SchedulerLeastConnections
			events, key, at := one(f, p, 3)
			set := model.PoolShares{Key: key}
			set.Cluster.Endpoints, set.Cluster.Shares = at, []uint16{0, 3, 9}
			daemon, kernel := bothOf(t, c, events, func() { c.Overlays <- []model.Overlay{set} })
			check(daemon, "0 0 true 0 Busy true", "3 25 true 0  true", "9 75 true 0  true")
			check(kernel, "3 25 true 0  true", "9 75 true 0  true")

			events, _, _ = one(f, p, 4)
			all := events[1].(sync.SetSlice).Slice
			events = events[:1]
			for i, weight := range []uint16{6, 3, 0, 0} {
				s := all
				s.Name.Name, s.Weight, s.Drained, s.Endpoints = fmt.Sprint(i), weight, i == 3, all.Endpoints[i:i+1]
				events = append(events, sync.SetSlice{Slice: s})
			}
			daemon, kernel = both(t, events)
			check(daemon, "6 60 true 6  true", "3 30 true 3  true", "1 10 true 0  true", "0 0 false 0 Drained false")
			check(kernel, "6 60 true 0  true", "3 30 true 0  true", "1 10 true 0  true") // it knows no drained ones
		}
	}
}

// TestSlowStartIsShown has three endpoints, of which two have joined.
func TestSlowStartIsShown(t *testing.T) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			c := config
			c.Overlays = make(chan []model.Overlay)
			events, key, at := one(f, p, 3)
			web := events[0].(sync.SetService).Service
			web.SlowStart = time.Minute
			events[0] = sync.SetService{Service: web}
			set := model.SlowStart{Key: key, Cluster: model.ListShares{Endpoints: at, Steps: model.Steps{Eighths: []uint8{8, 2, 1}, Slots: 85}}}
			daemon, kernel := bothOf(t, c, events, func() { c.Overlays <- []model.Overlay{set} })
			for i, want := range []struct {
				starts string
				share  int
			}{{"", 62}, {"1/4", 15}, {"1/8", 8}} {
				of, seen := daemon.Services[0].Ports[0].Endpoints[i], kernel.Services[0].Ports[0].Endpoints[i]
				if of.SlowStart != want.starts || of.Share != want.share || seen.SlowStart != "" || seen.Share != want.share {
					t.Errorf("%s, %s: %q with %d slots, and in the kernel %q with %d, want %+v",
						f, p, of.SlowStart, of.Share, seen.SlowStart, seen.Share, want)
				}
			}
		}
	}
}

func TestHealthNeedsNoSnapshot(t *testing.T) {
	health := &nodestatus.Health{Sync: nodestatus.Sync{Last: then}}
	source := build.New(build.Config{
		NodeName: "worker-1", Version: "v1",
		Snapshot: func(context.Context) (sync.Snapshot, error) { return sync.Snapshot{}, errors.New("the loop waits") },
		Health:   func(context.Context) (*nodestatus.Health, error) { return health, errors.New("read the tables: EPERM") },
	})
	d, err := source(t.Context(), nodestatus.Query{Health: true})
	must(t, err)
	if d.Schema != nodestatus.Schema || d.Health != health || !d.Ready || d.Node != "worker-1" || d.Version != "v1" || d.Source != nodestatus.FromDaemon {
		t.Errorf("the document is %+v", d)
	}
	want := nodestatus.Problem{Object: "Node worker-1", Reason: nodestatus.ReasonUnread, Text: "read the tables: EPERM"}
	if len(d.Problems) != 1 || !reflect.DeepEqual(d.Problems[0], want) {
		t.Errorf("the problems are %+v", d.Problems)
	}
	if _, err := source(t.Context(), nodestatus.Query{}); err == nil {
		t.Error("there is a document of Services without a snapshot")
	}
}

// TestReturnedNodeHasNoFollowers has a process that serves nothing, so its followers do not answer.
func TestReturnedNodeHasNoFollowers(t *testing.T) {
	health := &nodestatus.Health{Takeover: nodestatus.Takeover{State: nodestatus.TakeoverReturned}}
	d, err := build.New(build.Config{
		Health:  func(context.Context) (*nodestatus.Health, error) { return health, nil },
		Waiting: func(context.Context) ([]hold.Waiting, error) { return nil, errors.New("shutting down") },
	})(t.Context(), nodestatus.Query{Health: true})
	if must(t, err); len(d.Problems) > 0 {
		t.Errorf("the problems are %+v", d.Problems)
	}
}

// TestUnresponsiveEndpointsAreShown has four endpoints: of two that are unresponsive one is avoided,
// and another one is possibly unresponsive.
func TestUnresponsiveEndpointsAreShown(t *testing.T) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			c := config
			c.Overlays, c.PassiveChecks, c.MaxAvoidedPercent = make(chan []model.Overlay), model.PassiveChecksAvoid, 25
			events, key, at := one(f, p, 4)
			r := passivehealth.Report{Late: 184500 * time.Millisecond}
			for n := 1; n < 4; n++ {
				services := []sync.Object{{Kind: "Service", Namespace: "shop", Name: "web", UID: "1"}}
				r.Endpoints = append(r.Endpoints, passivehealth.Unresponsive{
					Protocol: p, Endpoint: at[n], Since: then, Clients: 1, Connections: n, Probes: 2,
					Possibly: n == 3, ProbesWorked: n < 3, Services: services, Avoiding: services[:(4-n)/2],
				})
			}
			set := model.UnresponsiveEndpoints{Key: key, Endpoints: at[1:3]}
			v := statustest.Snapshot(t, c, kerneltest.New(), events, func() { c.Overlays <- []model.Overlay{set} })
			d, err := build.New(build.Config{
				Snapshot:     func(context.Context) (sync.Snapshot, error) { return v, nil },
				Health:       func(context.Context) (*nodestatus.Health, error) { return &nodestatus.Health{}, nil },
				Unresponsive: func(context.Context) (passivehealth.Report, error) { return r, nil },
			})(t.Context(), nodestatus.Query{})
			must(t, err)
			for n, want := range []*nodestatus.Unresponsive{
				nil,
				{Since: then, Clients: 1, Connections: 1, Probes: 2, ProbesWorked: true},
				{Since: then, Clients: 1, Connections: 2, Probes: 2, ProbesWorked: true, NotAvoided: nodestatus.MaxPercent},
				{Since: then, Clients: 1, Connections: 3, Probes: 2, Possibly: true},
			} {
				e := &d.Services[0].Ports[0].Endpoints[n]
				if avoided := e.Reason == nodestatus.ReasonAvoided; !reflect.DeepEqual(e.Unresponsive, want) || avoided != (n == 1) {
					t.Errorf("%s, %s: %+v, %+v", f, p, e, e.Unresponsive)
				}
			}
			if h, want := *d.Health.PassiveHealth, (nodestatus.PassiveHealth{Endpoints: 2, Possibly: 1, LateSeconds: 184}); h != want {
				t.Errorf("%s, %s: health %+v", f, p, h)
			}
			for _, n := range []int{0, 3} {
				e := &d.Services[0].Ports[0].Endpoints[n]
				e.Slot, e.LocalSlot, e.Reason = nil, nil, nodestatus.ReasonAvoided
			}
			build.AddUnresponsive(d, &r)
			if u := d.Services[0].Ports[0].Endpoints[2].Unresponsive; u.NotAvoided != nodestatus.LastEndpoint {
				t.Errorf("%s, %s: the last endpoint is %+v", f, p, u)
			}
		}
	}
}
