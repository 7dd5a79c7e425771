package build_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
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
			name := model.ServiceName{Namespace: "shop", Name: "web"}
			web := model.Service{
				Name: name, ClusterIPs: []netip.Addr{address(f, 96, 1)}, Ports: []model.ServicePort{{Protocol: p, Port: 80}},
			}
			slice := model.EndpointSlice{
				Name: model.EndpointSliceName{Namespace: "shop", Name: "web-1"}, Service: name, Family: f,
				Ports: []model.EndpointPort{{Protocol: p, Port: 8080}},
			}
			set := model.PoolShares{Key: model.Match{Family: f, Addr: address(f, 96, 1), Protocol: p, Port: 80}}
			for n := range 3 {
				e := model.Endpoint{Addr: address(f, 100, n), Ready: true, Serving: true}
				slice.Endpoints = append(slice.Endpoints, e)
				set.Cluster.Endpoints = append(set.Cluster.Endpoints, netip.AddrPortFrom(e.Addr, 8080))
			}
			set.Cluster.Shares = []uint16{0, 3, 9}
			kernel := kerneltest.New()
			l := sync.NewLoop(c, eventSource{sync.SetService{Service: web}, sync.SetSlice{Slice: slice}}, kernel, slog.New(slog.DiscardHandler))
			ctx, end := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- l.Run(ctx) }()
			<-l.Ready()
			shares <- []model.PoolShares{set}
			v, err := l.Snapshot(t.Context())
			end()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			tables, readErr := kernel.Read()
			if err != nil || readErr != nil {
				t.Fatal(err, readErr)
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
