package sync_test

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// TestSharesReachTheKernelInOneTransaction has a Service of two endpoints, of which the
// second gets three of four slots.
func TestSharesReachTheKernelInOneTransaction(t *testing.T) {
	for _, f := range model.Families {
		synctest.Test(t, func(t *testing.T) {
			shares := make(chan []model.PoolShares)
			s := newRig(t, sync.Config{Shares: shares, Options: model.Options{Scheduler: model.SchedulerLeastConnections}})
			web, slice := webService("web", 1), webSlice(f, 1)
			slice.Slice.Endpoints = append(slice.Slice.Endpoints, webSlice(f, 2).Slice.Endpoints...)
			s.send(web, slice)
			key := model.Match{Family: f, Addr: web.Service.ClusterIPs[f], Protocol: model.TCP, Port: 80}
			if got := s.endpoints(key); len(got) != 2 {
				t.Errorf("%d slots at first", len(got))
			}
			s.take()
			var endpoints []netip.AddrPort
			for _, e := range slice.Slice.Endpoints {
				endpoints = append(endpoints, netip.AddrPortFrom(e.Addr, 8080))
			}
			shares <- []model.PoolShares{{Key: key, Cluster: model.ListShares{Endpoints: endpoints, Shares: []uint16{1, 3}}}}
			synctest.Wait()
			s.expect("after shares were set", "synced true")
			if got := s.endpoints(key); len(got) != 4 || got[1] != endpoints[1] {
				t.Errorf("slots then are of %v", got)
			}
		})
	}
}
