package build_test

import (
	"net/netip"
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/sync"
)

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
