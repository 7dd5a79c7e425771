package build_test

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/model"
	"kube-vmap/sync"
)

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
	v := loop(t, []sync.Event{claim("old", 1, 40, 1), claim("young", 2, 40, 1)})
	problems := build.FromSnapshot(&v, nodestatus.Query{Name: "young"}, then).Services[0].Problems
	if len(problems) != 20 || !strings.HasSuffix(problems[19].Text, "(and 60 more)") {
		t.Errorf("%d problems are listed, the last is %v", len(problems), problems[len(problems)-1])
	}
}

// TestConflictIsOneProblemForAllPortsOfAnAddress has two Services that claim an address of each
// family, which a third one holds with all ports.
func TestConflictIsOneProblemForAllPortsOfAnAddress(t *testing.T) {
	v := loop(t, []sync.Event{claim("old", 1, 1, 3), claim("young", 2, 1, 1), claim("many", 3, 1, 3)})
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
	events := append(web(), slice("shop"), slice("other"), sync.SetProblem{Object: sync.Object{Kind: "ServiceCIDR", Name: "y"}, Err: errors.New("bad")},
		sync.SetProblem{Object: sync.Object{Kind: "Service", Namespace: "shop", Name: "bad"}, Err: errors.New("is no Service")})
	v := loop(t, events)
	if bad := build.FromSnapshot(&v, nodestatus.Query{Name: "bad"}, then).Services; len(bad) != 1 || bad[0].State() != model.ProblemUnusable {
		t.Errorf("a Service that cannot be read at all: %+v", bad)
	}
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

// TestPortsTimesEndpointsAreBounded has a Service with many ports, and one EndpointSlice with many
// endpoints that have none of them.
func TestPortsTimesEndpointsAreBounded(t *testing.T) {
	const ports, endpoints = 2000, 1000
	web := model.Service{Name: model.ServiceName{Namespace: "shop", Name: "web"}, ClusterIPs: []netip.Addr{address(model.IPv4, 96, 1)}}
	for i := range ports {
		web.Ports = append(web.Ports, model.ServicePort{Name: fmt.Sprint("p", i), Protocol: model.TCP, Port: uint16(i + 1)})
	}
	slice := model.EndpointSlice{
		Name: model.EndpointSliceName{Namespace: "shop", Name: "web-1"}, Service: web.Name, Family: model.IPv4,
		Ports: []model.EndpointPort{{Name: "other", Protocol: model.TCP, Port: 80}},
	}
	for i := range endpoints {
		slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: address(model.IPv4, 100, i), Ready: true, Serving: true})
	}
	v := loop(t, []sync.Event{sync.SetService{Service: web}, sync.SetSlice{Slice: slice}})
	for _, brief := range []bool{false, true} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s := build.FromSnapshot(&v, nodestatus.Query{Brief: brief}, then).Services[0]
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 50 {
			t.Errorf("brief: %t: a document takes %d MiB", brief, took)
		}
		if n := len(s.Problems); n != 20 || !strings.HasSuffix(s.Problems[n-1].Text, " (and 1980 more)") || s.EndpointCount().All != endpoints {
			t.Errorf("brief: %t: %d problems, the last %q, %+v", brief, n, s.Problems[n-1].Text, s.EndpointCount())
		}
		for _, p := range s.Ports {
			if !brief && (len(p.Endpoints) == 0 || len(p.Endpoints)+p.NotListed != endpoints) || p.Rejected != nodestatus.ReasonNoEndpoints {
				t.Fatalf("port %s has %d endpoints, %s", p.Name, len(p.Endpoints), p.Rejected)
			}
		}
	}
}

// TestServiceOverTheBudgetIsNoLongerDocument has one with many ports that all endpoints have.
func TestServiceOverTheBudgetIsNoLongerDocument(t *testing.T) {
	before := sync.Budget
	defer func() { sync.Budget = before }()
	sync.Budget.PerNamespace = 1000
	const ports, endpoints = 100, 1000
	events, _, _ := one(model.IPv4, model.TCP, endpoints)
	web, slice := events[0].(sync.SetService).Service, events[1].(sync.SetSlice).Slice
	web.Ports, slice.Ports = nil, nil
	for i := range ports {
		web.Ports = append(web.Ports, model.ServicePort{Name: fmt.Sprint("p", i), Protocol: model.TCP, Port: uint16(i + 1)})
		slice.Ports = append(slice.Ports, model.EndpointPort{Name: fmt.Sprint("p", i), Protocol: model.TCP, Port: uint16(i + 1)})
	}
	v, listed := loop(t, []sync.Event{sync.SetService{Service: web}, sync.SetSlice{Slice: slice}}), 0
	s := build.FromSnapshot(&v, nodestatus.Query{}, then).Services[0]
	for _, p := range s.Ports {
		listed += len(p.Endpoints)
	}
	if limit := 10_000 + endpoints + ports; listed > limit || s.State() != model.ProblemUnusable || s.EndpointCount().All != endpoints {
		t.Errorf("%d endpoints are listed, want %d at most; %s, %+v", listed, limit, s.State(), s.EndpointCount())
	}
}
