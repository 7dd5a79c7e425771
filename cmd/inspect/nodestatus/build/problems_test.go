package build_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

// named changes the Service of web.
func named(change func(*model.Service)) []sync.Event {
	events := web()
	s := events[len(events)-1].(sync.SetService)
	change(&s.Service)
	events[len(events)-1] = s
	return events
}

// sliced returns the Service with changed EndpointSlices.
func sliced(change func(*model.EndpointSlice)) []sync.Event {
	events := web()
	for i := range events {
		if s, is := events[i].(sync.SetSlice); is {
			change(&s.Slice)
			events[i] = s
		}
	}
	return events
}

// TestStateIsTheWorst checks the state and its cause.
func TestStateIsTheWorst(t *testing.T) {
	object := sync.Object{Kind: "Service", Namespace: "shop", Name: "web"}
	tests := []struct {
		want   string
		events []sync.Event
		says   string // somewhere in the document
		refuse bool
	}{
		{want: nodestatus.StateOK, events: web()},
		{want: nodestatus.StateNoEndpoints, events: web()[2:]},
		{want: nodestatus.StateNotReady, events: sliced(func(s *model.EndpointSlice) {
			for i := range s.Endpoints {
				s.Endpoints[i].Ready, s.Endpoints[i].Serving = false, false
			}
		})},
		{want: nodestatus.StateDrained, events: sliced(func(s *model.EndpointSlice) { s.Drained = true })},
		{
			want: nodestatus.StateNoneLocal, says: "NotLocal",
			events: named(func(s *model.Service) {
				s.InternalPolicy = model.PolicyLocal
				for i := range s.Ports {
					s.Ports[i].NodePort = 0
				}
			}),
		},
		{
			want: nodestatus.StateNoneLocal, says: "Drop",
			events: named(func(s *model.Service) { s.ExternalPolicy = model.PolicyLocal }),
		},
		{
			want: nodestatus.StateNoPort, says: "none of its 2 IPv6 endpoints has the port admin/TCP; their EndpointSlices have sctp/SCTP, tcp/TCP, udp/UDP",
			events: named(func(s *model.Service) { s.Ports[0].Name = "admin" }),
		},
		{
			want: nodestatus.StateUnusable, says: "no such port",
			events: append(web(), sync.SetProblem{Object: object, Err: errors.New("no such port")}),
		},
		{
			want: nodestatus.StateUnusable, says: "is no Service",
			events: []sync.Event{sync.SetProblem{Object: object, Err: errors.New("is no Service")}},
		},
		{
			want: nodestatus.StateConflict, says: "is held by Service shop/old",
			events: append(web(), sync.SetService{Service: model.Service{
				Name: model.ServiceName{Namespace: "shop", Name: "old"}, Created: -1,
				Ports:      []model.ServicePort{{Name: "dns", Protocol: model.UDP, Port: 80}},
				ClusterIPs: named(func(*model.Service) {})[2].(sync.SetService).Service.ClusterIPs,
			}}),
		},
		{want: nodestatus.StateRefused, events: web(), says: "numerical result out of range", refuse: true},
	}
	for _, tc := range tests {
		t.Run(tc.want, func(t *testing.T) {
			k := kerneltest.NewFaulty(kerneltest.New(), kerneltest.FaultRates{}, 1)
			if tc.refuse {
				for _, p := range model.Protocols {
					k.Refuse("shop/web:"+p.String(), unix.ERANGE, 0)
				}
			}
			v := loop(t, config, k, tc.events)
			for _, q := range []nodestatus.Query{{Name: "web"}, {Name: "web", Brief: true}} {
				all := build.FromSnapshot(&v, q, then).Services
				if len(all) != 1 {
					t.Fatalf("there are %d Services", len(all))
				}
				if got := all[0].State(); got != tc.want {
					t.Errorf("brief %v: it is %s, want %s", q.Brief, got, tc.want)
				}
				if text := fmt.Sprintf("%+v", all[0]); !q.Brief && !strings.Contains(text, tc.says) {
					t.Errorf("%s does not say %q", text, tc.says)
				}
			}
		})
	}
}

// claim is a Service that claims addresses of both families, with ports over all protocols.
func claim(name string, created int64, addresses, ports int) sync.Event {
	s := model.Service{Name: model.ServiceName{Namespace: "shop", Name: name}, Created: created}
	for _, f := range model.Families {
		s.ClusterIPs = append(s.ClusterIPs, address(f, 97, int(created)))
	}
	for n := range addresses {
		for _, f := range model.Families {
			s.ExternalIPs = append(s.ExternalIPs, address(f, 96, 1+n))
		}
	}
	for i := range ports {
		for _, p := range model.Protocols {
			s.Ports = append(s.Ports, model.ServicePort{Name: fmt.Sprint(p, i), Protocol: p, Port: uint16(80 + i)})
		}
	}
	return sync.SetService{Service: s}
}

func TestReportedProblemsAreLimited(t *testing.T) {
	v := loop(t, config, newKernel(), []sync.Event{claim("old", 1, 40, 1), claim("young", 2, 40, 1)})
	problems := build.FromSnapshot(&v, nodestatus.Query{Name: "young"}, then).Services[0].Problems
	if len(problems) != 20 || !strings.HasSuffix(problems[19].Text, "(and 60 more)") {
		t.Errorf("%d problems are listed, the last is %v", len(problems), problems[len(problems)-1])
	}
}

// TestConflictIsOneProblemForAllPortsOfAnAddress has two Services that claim an address of each
// family, which a third one holds with all ports.
func TestConflictIsOneProblemForAllPortsOfAnAddress(t *testing.T) {
	v := loop(t, config, newKernel(), []sync.Event{claim("old", 1, 1, 3), claim("young", 2, 1, 1), claim("many", 3, 1, 3)})
	for _, q := range []nodestatus.Query{{Name: "young"}, {}} {
		for _, s := range build.FromSnapshot(&v, q, then).Services {
			if s.Name != "young" {
				continue
			}
			if len(s.Problems) != 2 || s.Problems[0].Object != "Service shop/young" || !strings.HasPrefix(s.Problems[0].Field, "spec.externalIPs: ") ||
				!strings.HasSuffix(s.Problems[0].Text, ":80/udp are held by Service shop/old") || strings.Count(s.Problems[0].Text, ":80/") != 3 {
				t.Errorf("%+v", s.Problems)
			}
		}
	}
	old := build.FromSnapshot(&v, nodestatus.Query{Name: "old"}, then).Services[0]
	if len(old.Problems) != 0 || len(old.Contested) != 4 || !strings.Contains(old.Contested[0].Text, " and 3 more are held by Service shop/old") {
		t.Errorf("%+v", old.Contested)
	}
}

func TestProblemsOfOtherObjectsAreOfTheQueriedNamespace(t *testing.T) {
	slice := func(namespace string) sync.Event {
		return sync.SetProblem{Object: sync.Object{Kind: "EndpointSlice", Namespace: namespace, Name: "x"}, Err: errors.New("bad")}
	}
	events := append(web(), slice("shop"), slice("other"), sync.SetProblem{Object: sync.Object{Kind: "ServiceCIDR", Name: "y"}, Err: errors.New("bad")})
	v := loop(t, config, newKernel(), events)
	for namespace, want := range map[string]string{
		"":     "[EndpointSlice other/x EndpointSlice shop/x ServiceCIDR y]",
		"shop": "[EndpointSlice shop/x ServiceCIDR y]",
	} {
		var objects []string
		for _, p := range build.FromSnapshot(&v, nodestatus.Query{Namespace: namespace}, then).Problems {
			objects = append(objects, p.Object)
		}
		if fmt.Sprint(objects) != want {
			t.Errorf("of namespace %q: %v, want %s", namespace, objects, want)
		}
	}
}
