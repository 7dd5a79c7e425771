package sync_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"kube-vmap/model"
	"kube-vmap/sync"
)

func TestRefusedServicePortIsReportedNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, sync.Config{})
		s.send(webService("web", 1))
		s.kernel.Refuse("default/web:udp", syscall.EINVAL, 0)
		s.take()
		s.send(webSlice(model.IPv6, 1))
		if got := s.take(); strings.Count(got, "RefusedByKernel Service default/web: uid-of-web: service default/web:udp") != 1 {
			t.Errorf("reported:\n%s", got)
		}
		if r := s.last(); r.Err != nil || r.Drift || r.QuarantinedPorts != 1 || r.Endpoints != 2 {
			t.Errorf("the result is %+v", r)
		}
	})
}

func TestServiceOverBudgetIsReportedAndNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, sync.Config{})
		heavy := model.EndpointSlice{
			Name: model.EndpointSliceName{Namespace: "default", Name: "heavy-1"}, Service: webService("heavy", 1).Service.Name,
			Ports: make([]model.EndpointPort, 1000), Endpoints: make([]model.Endpoint, 1001),
		}
		s.send(webService("heavy", 1), sync.SetSlice{Slice: heavy}, webService("light", 2), webSlice(model.IPv4, 2))
		if got := s.take(); strings.Count(got, "Unusable Service default/heavy: uid-of-heavy: it needs 4004060 elements of the rule set") != 1 {
			t.Errorf("reported:\n%s", got)
		}
		if r := s.last(); r.Err != nil || r.InvalidObjects != 1 {
			t.Errorf("the result is %+v", r)
		}
		s.send(sync.DeleteSlice{Name: heavy.Name})
		if r := s.last(); r.InvalidObjects != 0 {
			t.Errorf("with fewer endpoints, the result is %+v", r)
		}
	})
}

// TestLostClaimsAreReportedOncePerService has two Services of the same addresses, with
// six ports each in both families together, and one of a single port.
func TestLostClaimsAreReportedOncePerService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, sync.Config{})
		older, younger := webService("older", 1), webService("younger", 2)
		younger.Service.ClusterIPs = older.Service.ClusterIPs
		single := webService("single", 3)
		single.Service.ClusterIPs, single.Service.Ports = older.Service.ClusterIPs[:1], single.Service.Ports[:1]
		s.send(older, younger, single)
		got := s.take()
		want := "AddressConflict Service default/younger: uid-of-younger: 10.96.0.1:80/tcp is held by Service default/older:tcp," +
			" which is older or whose own address it is, and not served for this one; so are 5 more of its addresses and ports"
		if strings.Count(got, want) != 1 || strings.Count(got, "AddressConflict") != 2 || strings.Count(got, "more of its") != 1 {
			t.Errorf("%q is not reported once in\n%s", want, got)
		}
		if r := s.last(); r.Conflicts != 7 {
			t.Errorf("the result is %+v", r)
		}
	})
}

func TestProblemIsReportedOnce(t *testing.T) {
	const noticeBurst = 20 // notices of a namespace in a row
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, sync.Config{})
		o := sync.Object{Kind: "Service", Namespace: "default", Name: "odd", UID: "1"}
		bad := sync.SetProblem{Object: o, Err: errors.New("spec.ports[0].port: 0")}
		s.send(bad)
		s.expect("a new failure", "queued 0 0", "Unusable Service default/odd: 1: spec.ports[0].port: 0", "synced true")
		s.send(bad)
		s.expect("the same again", "queued 0 0", "synced true")
		if r := s.last(); r.InvalidObjects != 1 {
			t.Errorf("the result is %+v", r)
		}
		s.send(sync.SetProblem{Object: o})
		s.expect("solved", "queued 0 0", "synced true")
		if r := s.last(); r.InvalidObjects != 0 {
			t.Errorf("the result is %+v", r)
		}
		s.send(bad)
		s.expect("again", "queued 0 0", "Unusable Service default/odd: 1: spec.ports[0].port: 0", "synced true")
		for i := range noticeBurst {
			s.send(sync.SetProblem{Object: o, Err: errors.New(strings.Repeat("long ", 10_000+i))})
		}
		if got := s.take(); strings.Count(got, "Unusable") != noticeBurst-2 || len(got) > noticeBurst*2200 {
			t.Errorf("%d bytes are reported, of which the namespace has a limit:\n%s", len(got), got)
		}
	})
}
