package build_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/cmd/inspect/nodestatus/statustest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

// TestSharesAndBusyEndpointsAreShown has three endpoints with shares, of which one has
// none.
func TestSharesAndBusyEndpointsAreShown(t *testing.T) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			shares := make(chan []model.PoolShares)
			c := config
			c.Shares, c.Scheduler = shares, model.SchedulerLeastConnections
			events, key, at := one(f, p, 3)
			set := model.PoolShares{Key: key}
			set.Cluster.Endpoints, set.Cluster.Shares = at, []uint16{0, 3, 9}
			kernel := kerneltest.New()
			v := statustest.Snapshot(t, c, kernel, events, func() { shares <- []model.PoolShares{set} })
			tables, err := kernel.Read()
			if err != nil {
				t.Fatal(err)
			}
			check := func(d *nodestatus.Document, want ...string) {
				t.Helper()
				port := &d.Services[0].Ports[0]
				var got []string
				for i := range port.Endpoints {
					e := &port.Endpoints[i]
					percent, uneven := port.SharePercents()(e)
					got = append(got, fmt.Sprint(e.Share, " ", percent, " ", uneven, " ", e.Reason, " ", e.Used()))
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, %s, %s: %q, want %q", d.Source, f, p, got, want)
				}
			}
			check(build.FromSnapshot(&v, nodestatus.Query{}, then), "0 0 true Busy true", "3 25 true  true", "9 75 true  true")
			check(build.FromTables(tables, nodestatus.Query{}, then), "3 25 true  true", "9 75 true  true")
		}
	}
}

// TestWeightsAreShown has endpoints of weight 6, of 2, of none, and a drained one.
func TestWeightsAreShown(t *testing.T) {
	for _, family := range model.Families {
		for _, protocol := range model.Protocols {
			text := [...]string{"10.244.0.1", "fd00:10:244::1"}[family]
			service := model.Service{
				Name:       model.ServiceName{Namespace: "shop", Name: "web"},
				ClusterIPs: []netip.Addr{netip.MustParseAddr([...]string{"10.96.0.1", "fd00:10:96::1"}[family])},
				Ports:      []model.ServicePort{{Protocol: protocol, Port: 80}},
			}
			events := []sync.Event{sync.SetService{Service: service}}
			pod := netip.MustParseAddr(text)
			for i, weight := range []uint16{6, 2, 0, 0} {
				events = append(events, sync.SetSlice{Slice: model.EndpointSlice{
					Name: model.EndpointSliceName{Namespace: "shop", Name: string(rune('a' + i))}, Service: service.Name, Family: family,
					Ports: []model.EndpointPort{{Protocol: protocol, Port: 8080}}, Weight: weight, Drained: i == 3,
					Endpoints: []model.Endpoint{{Addr: pod, Ready: true, Serving: true}},
				}})
				pod = pod.Next()
			}
			daemon, kernel := both(t, events)
			for _, d := range []*nodestatus.Document{daemon, kernel} {
				port := &d.Services[0].Ports[0]
				for i, want := range []struct {
					share, weight int
					reason        string
				}{{6, 6, ""}, {2, 2, ""}, {1, 0, ""}, {0, 0, "Drained"}} {
					if i == len(port.Endpoints) && d.Source == nodestatus.FromKernel {
						continue // it knows no drained ones
					}
					e := &port.Endpoints[i]
					if d.Source == nodestatus.FromKernel {
						want.weight = 0
					}
					if e.Share != want.share || e.LocalShare != 0 || e.Weight != want.weight || e.Reason != want.reason {
						t.Errorf("%s: endpoint %d is %+v, want %+v", d.Source, i, e, want)
					}
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
		Health:   func() (*nodestatus.Health, error) { return health, errors.New("read the tables: EPERM") },
	})
	d, err := source(t.Context(), nodestatus.Query{Health: true})
	if err != nil {
		t.Fatal(err)
	}
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
