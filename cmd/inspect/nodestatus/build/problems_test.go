package build_test

import (
	"errors"
	"fmt"
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
	if bad := build.FromSnapshot(&v, nodestatus.Query{Name: "bad"}, then).Services; len(bad) != 1 || bad[0].State() != nodestatus.StateUnusable {
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
