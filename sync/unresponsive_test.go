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

// TestUnresponsiveEndpointLeavesAndReturnsInOneTransaction has a Service of two endpoints, of which
// the first does not answer over one protocol for a while. Another Service has one endpoint, so
// that the chains for one and for two exist: new ones go before what leads to them.
func TestUnresponsiveEndpointLeavesAndReturnsInOneTransaction(t *testing.T) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			synctest.Test(t, func(t *testing.T) {
				unresponsive := make(chan []model.UnresponsiveEndpoints)
				s := newRig(t, sync.Config{
					Unresponsive: unresponsive,
					Options:      model.Options{PassiveChecks: model.PassiveChecksAvoid, MaxAvoidedPercent: 50},
				})
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
				for _, silent := range [][]netip.AddrPort{both[:1], nil} {
					unresponsive <- []model.UnresponsiveEndpoints{{Key: key, Endpoints: silent}}
					synctest.Wait()
					s.expect("after a change", "synced true")
					if n := s.last().Applied.Steps; n != 1 {
						t.Errorf("%s, %s: %d transactions", f, p, n)
					}
					if got, want := s.endpoints(key), both[len(silent):]; !slices.Equal(got, want) {
						t.Errorf("%s, %s: endpoints %v, want %v", f, p, got, want)
					}
				}
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
