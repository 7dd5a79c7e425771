package sync_test

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// TestUnresponsiveEndpointsAndSharesReachTheKernelAtOnce has a Service of two endpoints. The
// first is unresponsive over one protocol for a while; then the second gets three of four slots.
// Another Service has one endpoint, so the chains for one and for two exist: new ones would go
// before the elements that jump to them, in a transaction of their own.
func TestUnresponsiveEndpointsAndSharesReachTheKernelAtOnce(t *testing.T) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			synctest.Test(t, func(t *testing.T) {
				overlays := make(chan []model.Overlay)
				s := newRig(t, sync.Config{Overlays: overlays, Options: model.Options{
					PassiveChecks: model.PassiveChecksAvoid, MaxAvoidedPercent: 50, Scheduler: model.SchedulerLeastConnections,
				}})
				web, slice, other := webService("web", 1), webSlice(f, 1), webSlice(f, 3)
				slice.Slice.Endpoints = append(slice.Slice.Endpoints, webSlice(f, 2).Slice.Endpoints...)
				other.Slice.Name.Name, other.Slice.Service.Name = "other", "other"
				s.send(web, slice, webService("other", 2), other)
				s.take()
				key := model.Match{Family: f, Addr: web.Service.ClusterIPs[f], Protocol: p, Port: 80}
				var both []netip.AddrPort
				for _, e := range slice.Slice.Endpoints {
					both = append(both, netip.AddrPortFrom(e.Addr, 8080))
				}
				expect := func(transactions int, want ...netip.AddrPort) {
					t.Helper()
					synctest.Wait()
					s.expect("after a change", "synced true")
					if got, n := s.endpoints(key), s.last().Applied.Steps; !slices.Equal(got, want) || n != transactions {
						t.Errorf("%s, %s: endpoints %v after %d transactions, want %v", f, p, got, n, want)
					}
				}
				overlays <- []model.Overlay{model.UnresponsiveEndpoints{Key: key, Endpoints: both[:1]}}
				expect(1, both[1])
				overlays <- []model.Overlay{model.UnresponsiveEndpoints{Key: key}}
				expect(1, both...)
				overlays <- []model.Overlay{model.PoolShares{Key: key, Cluster: model.ListShares{Endpoints: both, Shares: []uint16{1, 3}}}}
				expect(2, both[0], both[1], both[1], both[1])
			})
		}
	}
}

// endpoints returns the endpoints in the slots of a pool in the kernel, sorted.
func (s *loopRig) endpoints(of model.Match) (out []netip.AddrPort) {
	tables, err := s.kernel.Read()
	if err != nil {
		s.t.Fatal(err)
	}
	for slot := range uint16(4) {
		id := nft.SetID{Family: of.Family, Kind: nft.SetEndpoints, Slot: slot}
		for _, e := range tables[of.Family].Sets[id.Name()].Elements {
			if e.Key.Addr == of.Addr && e.Key.Protocol == of.Protocol {
				out = append(out, e.Value.Endpoint)
			}
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return out
}
