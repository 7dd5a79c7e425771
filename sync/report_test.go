package sync_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/kerneltest"
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

// TestRefusalsAreLimitedByNamespace has more refused ports than one namespace may report at once.
func TestRefusalsAreLimitedByNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := newRigOn(t, kerneltest.New(), sync.Config{}, slog.NewTextHandler(&log, nil))
		var all []sync.Event
		for n := range byte(30) {
			web := webService(fmt.Sprint("web-", n), n)
			s.kernel.Refuse(web.Service.Name.String()+":udp", syscall.EINVAL, 0)
			all = append(all, web)
		}
		s.send(all...)
		events, lines := strings.Count(s.take(), "RefusedByKernel"), strings.Count(log.String(), "quarantined Service port")
		if r := s.last(); r.Err != nil || r.QuarantinedPorts != len(all) || events != 20 || lines != events {
			t.Errorf("%d events, %d log lines, the result is %+v", events, lines, r)
		}
	})
}

// TestPostponedServiceIsNotARefusedPort has a kernel without memory for a change.
func TestPostponedServiceIsNotARefusedPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, sync.Config{})
		s.send(webService("web", 1))
		s.kernel.Refuse("default/web:udp", syscall.ENOMEM, 0)
		s.take()
		s.send(webSlice(model.IPv6, 1))
		if got := s.take(); strings.Count(got, "KernelOutOfMemory Service default/web: uid-of-web: no memory for its change") != 1 {
			t.Errorf("reported:\n%s", got)
		}
		if r := s.last(); r.Err != nil || r.QuarantinedPorts != 0 {
			t.Errorf("the result is %+v", r)
		}
		v, err := s.loop.Snapshot(t.Context())
		if err != nil || len(v.Problems) != 1 || v.Problems[0].Reason != model.ProblemMemory {
			t.Errorf("problems %+v, %v", v.Problems, err)
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

// exposed returns the Service with node ports and ClusterIPs of these families.
func exposed(s sync.SetService, families ...model.Family) sync.SetService {
	s.Service.ClusterIPs = slices.DeleteFunc(slices.Clone(s.Service.ClusterIPs), func(a netip.Addr) bool {
		return !slices.Contains(families, model.FamilyOf(a))
	})
	for i := range s.Service.Ports {
		s.Service.Ports[i].NodePort = 30080
	}
	return s
}

func TestNodePortAddressProblemsAreLoggedOnce(t *testing.T) {
	addrs := [...]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	primary, unknown := sync.NodePortAddresses{Primary: true}, netip.Addr{}
	for _, f := range model.Families {
		onAll := fmt.Sprintf("primary address of family %s is not known: node ports answer on all", f)
		onNone := fmt.Sprintf("no address of family %s on the node", f)
		elsewhere := addrs[f].Next()
		for _, test := range []struct {
			ports    sync.NodePortAddresses
			node     netip.Addr     // its primary address
			services []model.Family // that have node ports
			want     string
		}{
			{primary, unknown, []model.Family{f}, onAll},
			{primary, elsewhere, []model.Family{f}, onNone},
			{primary, addrs[f], []model.Family{f}, ""},
			{sync.NodePortAddresses{}, unknown, model.Families[:], ""},
			{primary, unknown, nil, ""},
			{primary, elsewhere, nil, ""},
		} {
			synctest.Test(t, func(t *testing.T) {
				known := make(addressList)
				var log strings.Builder
				s := newRigOn(t, kerneltest.New(), sync.Config{Addresses: known, NodePorts: test.ports},
					slog.NewTextHandler(&log, nil))
				known <- single(addrs[:]...)
				var node sync.SetNode
				node.Node.Addrs[f] = test.node
				s.send(node, webService("inside", 100))
				for n := range byte(3) {
					s.send(exposed(webService("web", n), test.services...))
				}
				text, want := log.String(), 1
				if test.want == "" {
					want = 0
				}
				if strings.Count(text, "node ports may not answer") != want || !strings.Contains(text, test.want) {
					t.Errorf("%s, %+v: want %d warnings %q:\n%s", f, test, want, test.want, text)
				}
				s.send(sync.DeleteService{Name: webService("web", 0).Service.Name})
				if left, err := s.loop.Snapshot(t.Context()); err != nil || len(left.Problems) > 0 {
					t.Errorf("problems without a node port: %v, %v", left.Problems, err)
				}
			})
		}
	}
}
