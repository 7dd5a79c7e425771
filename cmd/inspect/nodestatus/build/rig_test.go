package build_test

import (
	"net/netip"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/cmd/inspect/nodestatus/statustest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

var then = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// config is the configuration of all loops.
var config = sync.Config{
	NodeName: "worker-1",
	Rules: nft.Config{
		MasqueradeMark: nft.DefaultMasqueradeMark,
		Pods: [...]netip.Prefix{
			model.IPv4: netip.MustParsePrefix("10.244.0.0/16"), model.IPv6: netip.MustParsePrefix("fd00:10:244::/56"),
		},
	},
}

func loop(t *testing.T, events []sync.Event) sync.Snapshot {
	t.Helper()
	return statustest.Snapshot(t, config, kerneltest.New(), events, nil)
}

func both(t *testing.T, events []sync.Event) (daemon, kernel *nodestatus.Document) {
	t.Helper()
	return bothOf(t, config, events, nil)
}

// bothOf does that with another configuration, after a function has run.
func bothOf(t *testing.T, c sync.Config, events []sync.Event, ready func()) (daemon, kernel *nodestatus.Document) {
	t.Helper()
	k := kerneltest.New()
	v := statustest.Snapshot(t, c, k, events, ready)
	tables, err := k.Read()
	must(t, err)
	return build.FromSnapshot(&v, nodestatus.Query{}, then), build.FromTables(tables, nodestatus.Query{}, then)
}

// one returns a Service of one port with endpoints, the key of its ClusterIP, and theirs.
func one(f model.Family, p model.Protocol, endpoints int) (events []sync.Event, key model.Match, at []netip.AddrPort) {
	key = model.Match{Family: f, Addr: address(f, 96, 1), Protocol: p, Port: 80}
	web := model.Service{
		Name:       model.ServiceName{Namespace: "shop", Name: "web"},
		ClusterIPs: []netip.Addr{key.Addr}, Ports: []model.ServicePort{{Protocol: p, Port: key.Port}},
	}
	slice := model.EndpointSlice{
		Name: model.EndpointSliceName{Namespace: "shop", Name: "web-1"}, Service: web.Name, Family: f,
		Ports: []model.EndpointPort{{Protocol: p, Port: 8080}},
	}
	for n := range endpoints {
		slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: address(f, 100, n), Ready: true, Serving: true})
		at = append(at, netip.AddrPortFrom(address(f, 100, n), 8080))
	}
	return []sync.Event{sync.SetService{Service: web}, sync.SetSlice{Slice: slice}}, key, at
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
