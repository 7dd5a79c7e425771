package build_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/cmd/inspect/nodestatus/statustest"
	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/manifests"
)

var update = flag.Bool("update", false, "rewrite the golden document")

// TestDocumentGolden compares with a readable document, of the first port of each Service.
func TestDocumentGolden(t *testing.T) {
	events, problems := manifests.Load("../../../../sync/manifests/testdata/cluster", "worker-1")
	if len(problems) > 0 {
		t.Log(problems) // some files of the folder are not manifests
	}
	d, _ := both(t, events)
	for i := range d.Services {
		d.Services[i].Ports = d.Services[i].Ports[:1]
	}
	got, err := json.MarshalIndent(d, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const path = "testdata/daemon.json"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestKernelDocumentAgreesWithDaemon compares what both have, for random Services.
func TestKernelDocumentAgreesWithDaemon(t *testing.T) {
	frontends := 0
	for seed := range uint64(25) {
		daemon, kernel := both(t, randomEvents(rand.New(rand.NewPCG(seed, 1))))
		if diff := cmp.Diff(statustest.AsKernel(daemon), kernel); diff != "" {
			t.Fatalf("seed %d: -daemon +kernel\n%s", seed, diff)
		}
		for _, s := range kernel.Services {
			for _, p := range s.Ports {
				frontends += len(p.Frontends)
			}
		}
	}
	if frontends < 1000 {
		t.Errorf("in all only %d frontends were compared", frontends)
	}
}

// randomEvents returns Services of all kinds, with slices.
func randomEvents(r *rand.Rand) []sync.Event {
	node := model.Node{Name: "worker-1", Zone: "zone-a"}
	events := []sync.Event{sync.SetNode{Node: node}}
	for i := range 10 {
		s := randomService(r, i)
		events = append(events, sync.SetService{Service: s})
		for k, f := range []model.Family{model.IPv4, model.IPv6, model.IPv4} {
			if r.IntN(4) > 0 {
				events = append(events, sync.SetSlice{Slice: randomSlice(r, s, i, k, f)})
			}
		}
	}
	return events
}

func randomService(r *rand.Rand, i int) model.Service {
	s := model.Service{
		Name: model.ServiceName{Namespace: "shop", Name: fmt.Sprint("web-", i)}, Created: int64(i),
		InternalPolicy: model.TrafficPolicy(r.IntN(2)), ExternalPolicy: model.TrafficPolicy(r.IntN(2)),
		Affinity:  time.Duration(max(0, r.IntN(3)-1)) * time.Hour,
		Scheduler: model.Scheduler(r.IntN(int(model.SchedulerLeastConnections))), // the kernel has lc as random
	}
	for _, f := range model.Families {
		if r.IntN(5) == 0 {
			continue
		}
		s.ClusterIPs = append(s.ClusterIPs, address(f, 96, i))
		if r.IntN(2) == 0 {
			s.ExternalIPs = append(s.ExternalIPs, address(f, 198, i))
		}
		if r.IntN(2) == 0 {
			s.LoadBalancerIPs = append(s.LoadBalancerIPs, address(f, 203, i))
			for _, bits := range []int{8, 4} {
				if r.IntN(2) == 0 {
					a := address(f, 16, i)
					s.SourceRanges = append(s.SourceRanges, netip.PrefixFrom(a, a.BitLen()-bits).Masked())
				}
			}
		}
	}
	for k, p := range model.Protocols {
		port := model.ServicePort{Name: p.String(), Protocol: p, Port: uint16(80 + k)}
		if r.IntN(2) == 0 {
			port.NodePort = uint16(30000 + 10*i + k)
		}
		s.Ports = append(s.Ports, port)
	}
	return s
}

func randomSlice(r *rand.Rand, s model.Service, i, k int, f model.Family) model.EndpointSlice {
	slice := model.EndpointSlice{
		Name: model.EndpointSliceName{Namespace: "shop", Name: fmt.Sprint(s.Name.Name, "-", k)}, Service: s.Name, Family: f,
	}
	slice.Weight = [...]uint16{1, 1, 3, 0}[r.IntN(4)]
	slice.Drained = slice.Weight == 0
	for n, p := range model.Protocols {
		if r.IntN(6) > 0 {
			slice.Ports = append(slice.Ports, model.EndpointPort{Name: p.String(), Protocol: p, Port: uint16(8080 + n)})
		}
	}
	count := r.IntN(5)
	if r.IntN(20) == 0 {
		count = 300
	}
	for n := range count {
		e := model.Endpoint{
			Addr: address(f, byte(100+n/100), 100*i+n%100), Ready: r.IntN(3) > 0, Serving: true,
			Node: fmt.Sprint("worker-", 1+r.IntN(2)),
		}
		e.Terminating = !e.Ready && r.IntN(2) == 0
		slice.Endpoints = append(slice.Endpoints, e)
	}
	return slice
}

// address returns address n of a range.
func address(f model.Family, net byte, n int) netip.Addr {
	if f == model.IPv4 {
		return netip.AddrFrom4([4]byte{10, net, byte(n >> 8), byte(n)})
	}
	return netip.AddrFrom16([16]byte{0: 0xfd, 3: net, 14: byte(n >> 8), 15: byte(n)})
}

func TestQuerySelectsServices(t *testing.T) {
	v := loop(t, config, newKernel(), randomEvents(rand.New(rand.NewPCG(1, 1))))
	whole := build.FromSnapshot(&v, nodestatus.Query{}, then)
	for _, tc := range []struct {
		query nodestatus.Query
		want  int
	}{
		{nodestatus.Query{}, 10},
		{nodestatus.Query{Namespace: "shop"}, 10},
		{nodestatus.Query{Namespace: "other"}, 0},
		{nodestatus.Query{Name: "web-3"}, 1},
		{nodestatus.Query{Namespace: "shop", Name: "web-3"}, 1},
		{nodestatus.Query{Namespace: "other", Name: "web-3"}, 0},
	} {
		got := build.FromSnapshot(&v, tc.query, then)
		if len(got.Services) != tc.want {
			t.Errorf("%+v: %d Services, want %d", tc.query, len(got.Services), tc.want)
		}
		for _, s := range got.Services {
			i := slices.IndexFunc(whole.Services, func(o nodestatus.Service) bool { return o.Name == s.Name })
			if diff := cmp.Diff(whole.Services[i], s); diff != "" {
				t.Errorf("%+v: -whole +asked\n%s", tc.query, diff)
			}
		}
	}
	for i, s := range build.FromSnapshot(&v, nodestatus.Query{Brief: true}, then).Services {
		if want := whole.Services[i].EndpointCount(); s.Addresses == nil || s.EndpointCount() != want {
			t.Errorf("in brief, %s has %+v, want %+v", s.Name, s.Addresses, want)
		}
		if got, want := s.State(), whole.Services[i].State(); got != want || !cmp.Equal(s.Problems, whole.Services[i].Problems) {
			t.Errorf("in brief, %s is %s, want %s, with %v and %v", s.Name, got, want, s.Problems, whole.Services[i].Problems)
		}
		for _, p := range s.Ports {
			if len(p.Endpoints) > 0 || len(p.Frontends) == 0 {
				t.Errorf("in brief, %s has %d endpoints and %d frontends", s.Name, len(p.Endpoints), len(p.Frontends))
			}
		}
	}
}
