package build_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// TestConnectionsToGoneEndpointsAreListed counts connections to an endpoint that no
// EndpointSlice has, by the ClusterIP and the node port.
func TestConnectionsToGoneEndpointsAreListed(t *testing.T) {
	v := loop(t, web())
	for _, brief := range []bool{false, true} {
		d := build.FromSnapshot(&v, nodestatus.Query{Brief: brief}, then)
		d.NodeAddresses = nodeAddresses()
		var active []nft.ConnectionCount
		for _, f := range model.Families {
			for k, p := range model.Protocols {
				active = append(active, counted(f, p, address(f, 96, 1), 80, 7, 2), counted(f, p, address(f, 1, 1), uint16(30000+k), 7, 1))
			}
		}
		build.Count(d, build.Sample{}, build.Sample{Connections: active, Offloaded: active})
		s := &d.Services[0]
		if n := s.EndpointCount(); n != (nodestatus.Addresses{Used: 4, All: 4}) {
			t.Errorf("brief %t: the Service has %+v endpoints", brief, n)
		}
		for _, p := range s.Ports {
			if brief {
				if len(p.Endpoints) != 0 {
					t.Errorf("a brief document has %+v", p.Endpoints)
				}
				continue
			}
			gone := p.Endpoints[len(p.Endpoints)-1]
			if len(p.Endpoints) != 3 || gone.Reason != nodestatus.ReasonGone || gone.Active != 3 || gone.FastPath != 3 || gone.Used() || gone.Port != 8080 {
				t.Errorf("%s %s: endpoints %+v", p.Family, p.Protocol, p.Endpoints)
			}
		}
	}
}

func TestResponsesAreThoseOfEndpoints(t *testing.T) {
	v := loop(t, web())
	failure := error(nil)
	answer := build.New(build.Config{
		Snapshot: func(context.Context) (sync.Snapshot, error) {
			v.NodeAddrs = []netip.Addr{address(model.IPv4, 1, 1), address(model.IPv6, 1, 1)}
			return v, nil
		},
		Observe: func(_ context.Context, d time.Duration) (list []build.Response, err error) {
			for _, f := range model.Families {
				for k, p := range model.Protocols {
					at := netip.AddrPortFrom(address(f, 244, 1), 8080)
					list = append(list,
						build.Response{Destination: model.Match{Family: f, Addr: address(f, 96, 1), Protocol: p, Port: 80}, Endpoint: at, Refused: 3, Unanswered: 1},
						build.Response{Destination: model.Match{Family: f, Addr: address(f, 1, 1), Protocol: p, Port: uint16(30000 + k)}, Endpoint: at, Refused: 2},
						build.Response{Destination: model.Match{Family: f, Addr: address(f, 96, 9), Protocol: p, Port: 80}, Endpoint: at, Refused: 100},
					)
				}
			}
			return list, failure
		},
	})
	d, err := answer(t.Context(), nodestatus.Query{Observe: time.Hour})
	if err != nil || d.ObservedSeconds != nodestatus.MaxObserved.Seconds() {
		t.Fatalf("observed for %g s, %v", d.ObservedSeconds, err)
	}
	for _, p := range d.Services[0].Ports {
		a, b := p.Endpoints[0], p.Endpoints[1]
		if a.Refused+a.Unanswered != 0 || b.Refused != 5 || b.Unanswered != 1 {
			t.Errorf("%s %s: endpoints %+v", p.Family, p.Protocol, p.Endpoints)
		}
	}
	if d, err := answer(t.Context(), nodestatus.Query{}); err != nil || d.ObservedSeconds != 0 || d.Services[0].Ports[0].Endpoints[1].Refused != 0 {
		t.Errorf("without observation: %+v, %v", d, err)
	}
	failure = errors.New("no permission")
	if d, err := answer(t.Context(), nodestatus.Query{Observe: time.Second}); err != nil || len(d.Problems) != 1 || d.Problems[0].Reason != nodestatus.ReasonUnread {
		t.Errorf("after an error: %+v, %v", d.Problems, err)
	}
}

// TestConflictsNameTheFieldOfTheLoser lets a Service claim what another one holds.
func TestConflictsNameTheFieldOfTheLoser(t *testing.T) {
	other := func(change func(*model.Service)) []sync.Event {
		s := model.Service{Name: model.ServiceName{Namespace: "shop", Name: "young"}, Created: 1, Ports: []model.ServicePort{{Protocol: model.TCP, Port: 80}}}
		for _, f := range model.Families {
			s.ClusterIPs = append(s.ClusterIPs, address(f, 96, 2))
		}
		change(&s)
		return append(web(), sync.SetService{Service: s})
	}
	for _, f := range model.Families {
		held := address(f, 96, 1)
		for field, events := range map[string][]sync.Event{
			"spec.ports[].nodePort: 30000":                       other(func(s *model.Service) { s.Ports[0].NodePort = 30000 }),
			"spec.healthCheckNodePort: 30000":                    other(func(s *model.Service) { s.HealthCheckNodePort = 30000 }),
			"spec.externalIPs: " + held.String():                 other(func(s *model.Service) { s.ExternalIPs = []netip.Addr{held} }),
			"status.loadBalancer.ingress[].ip: " + held.String(): other(func(s *model.Service) { s.LoadBalancerIPs = []netip.Addr{held} }),
			"spec.clusterIPs: " + held.String():                  other(func(s *model.Service) { s.ClusterIPs = []netip.Addr{held} }),
		} {
			v := loop(t, events)
			d := build.FromSnapshot(&v, nodestatus.Query{Name: "young"}, then)
			if p := d.Services[0].Problems; len(p) == 0 || p[0].Field != field {
				t.Errorf("%s: problems %+v, want %s", f, p, field)
			}
		}
	}
}
