package sync_test

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// TestSharesReachTheKernelInOneTransaction has a Service of two endpoints, of which the
// second gets three of four slots.
func TestSharesReachTheKernelInOneTransaction(t *testing.T) {
	for _, f := range model.Families {
		synctest.Test(t, func(t *testing.T) {
			shares := make(chan []model.PoolShares)
			s := newRig(t, sync.Config{Shares: shares, Scheduler: model.SchedulerLeastConnections})
			web, slice := webService("web", 1), webSlice(f, 1)
			slice.Slice.Endpoints = append(slice.Slice.Endpoints, webSlice(f, 2).Slice.Endpoints...)
			s.send(web, slice)
			elements := func() (n int) {
				tables, err := s.kernel.Read()
				if err != nil {
					t.Fatal(err)
				}
				for k := range uint16(4) {
					if set, exists := tables[f].Sets[nft.SetID{Family: f, Kind: nft.SetEndpoints, Slot: k}.Name()]; exists {
						n += len(set.Elements)
					}
				}
				return n
			}
			if got := elements(); got != 2*len(model.Protocols) {
				t.Errorf("%d slots at first", got)
			}
			s.take()
			key := model.Match{Family: f, Addr: web.Service.ClusterIPs[f], Protocol: model.TCP, Port: 80}
			var endpoints []netip.AddrPort
			for _, e := range slice.Slice.Endpoints {
				endpoints = append(endpoints, netip.AddrPortFrom(e.Addr, 8080))
			}
			shares <- []model.PoolShares{{Key: key, Cluster: model.ListShares{Endpoints: endpoints, Shares: []uint16{1, 3}}}}
			synctest.Wait()
			s.expect("after shares were set", "synced true")
			if got := elements(); got != 2*len(model.Protocols)+2 {
				t.Errorf("%d slots then", got)
			}
		})
	}
}
