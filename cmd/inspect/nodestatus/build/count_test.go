package build_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
)

// web is a Service of both families and all protocols, with node ports and two endpoints.
func web() []sync.Event {
	s := model.Service{Name: model.ServiceName{Namespace: "shop", Name: "web"}}
	events := []sync.Event{}
	for _, f := range model.Families {
		s.ClusterIPs = append(s.ClusterIPs, address(f, 96, 1))
		slice := model.EndpointSlice{Name: model.EndpointSliceName{Namespace: "shop", Name: f.String()}, Service: s.Name, Family: f}
		for _, p := range model.Protocols {
			slice.Ports = append(slice.Ports, model.EndpointPort{Name: p.String(), Protocol: p, Port: 8080})
		}
		for n := range 2 {
			slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: address(f, 244, n), Ready: true, Serving: true})
		}
		events = append(events, sync.SetSlice{Slice: slice})
	}
	for k, p := range model.Protocols {
		s.Ports = append(s.Ports, model.ServicePort{Name: p.String(), Protocol: p, Port: 80, NodePort: uint16(30000 + k)})
	}
	return append(events, sync.SetService{Service: s})
}

func counted(f model.Family, p model.Protocol, at netip.Addr, port uint16, endpoint int, n uint64) nft.ConnectionCount {
	c := nft.ConnectionCount{Destination: model.Match{Family: f, Addr: at, Protocol: p, Port: port}, Connections: n}
	if endpoint >= 0 {
		c.Endpoint = netip.AddrPortFrom(address(f, 244, endpoint), 8080)
	}
	return c
}

// TestConnectionsCountForFrontendAndEndpoint counts in both families and all protocols, for
// ClusterIPs and node ports, including deleted endpoints and addresses of no Service, or of others.
func TestConnectionsCountForFrontendAndEndpoint(t *testing.T) {
	v := loop(t, web())
	d := build.FromSnapshot(&v, nodestatus.Query{}, then)
	d.NodeAddresses = nodeAddresses()
	var so, active, fastPath []nft.ConnectionCount
	var refusals []nft.RefusalCount
	for _, f := range model.Families {
		for k, p := range model.Protocols {
			cluster, node, port := address(f, 96, 1), address(f, 1, 1), uint16(30000+k)
			so = append(so,
				counted(f, p, cluster, 80, 0, 1), counted(f, p, cluster, 80, 1, 2), counted(f, p, cluster, 80, -1, 4),
				counted(f, p, node, port, 1, 8), counted(f, p, node, port, 7, 16),
				counted(f, p, cluster, 81, 0, 1000), counted(f, p, address(f, 96, 2), 80, 0, 1000),
				// The number of the node port at another Service, endpoint and node.
				counted(f, p, address(f, 96, 2), port, 0, 1000), counted(f, p, address(f, 244, 9), port, 1, 1000),
				counted(f, p, address(f, 1, 2), port, 0, 1000),
			)
			refusals = append(refusals,
				nft.RefusalCount{Match: model.Match{Family: f, Addr: cluster, Protocol: p, Port: 80}, Refusals: 9, Retried: 7},
				nft.RefusalCount{Match: model.Match{Family: f, Protocol: p, Port: port}, Refusals: 1})
			active = append(active, counted(f, p, cluster, 80, 1, 3), counted(f, p, node, port, 0, 5))
			fastPath = append(fastPath, counted(f, p, node, port, 0, 4), counted(f, p, address(f, 96, 2), 80, 0, 1))
		}
	}
	build.Count(d, build.Sample{Connections: so, Refusals: refusals}, build.Sample{Connections: active, Offloaded: fastPath})
	if d.FastPath != 6*5 { // other Services included
		t.Errorf("%d connections are on the fast path", d.FastPath)
	}
	if n := len(d.Services[0].Ports); n != 6 {
		t.Fatalf("there are %d ports", n)
	}
	for _, p := range d.Services[0].Ports {
		got := fmt.Sprint(p.Traffic, p.Frontends[0].Traffic, p.Frontends[1].Traffic, p.Endpoints[0].Traffic, p.Endpoints[1].Traffic)
		if want := "{31 8 4 7 3 false} {7 3 0 7 2 false} {24 5 4 0 1 false} {1 5 4 0 0 false} {10 3 0 0 0 false}"; got != want {
			t.Errorf("%s %s: port, ClusterIP, node port and endpoints have %s, want %s", p.Family, p.Protocol, got, want)
		}
	}
}

// TestWhatIsNotCountedIsMarked has a node port that is not counted, and a full set.
func TestWhatIsNotCountedIsMarked(t *testing.T) {
	for _, f := range model.Families {
		v := loop(t, web())
		d := build.FromSnapshot(&v, nodestatus.Query{Name: "web"}, then)
		d.NodeAddresses = nodeAddresses()
		if build.Count(d, build.Sample{}, build.Sample{}); d.NotCounted() {
			t.Error("all is counted, and the document denies it")
		}
		atNode := model.Match{Family: f, Addr: address(f, 1, 1), Protocol: model.TCP, Port: 30000}
		for k, p := range model.Protocols {
			if p == model.TCP {
				atNode.Port += uint16(k)
			}
		}
		build.Count(d, build.Sample{Uncounted: []model.Match{atNode}}, build.Sample{})
		for _, p := range d.Services[0].Ports {
			want := p.Family == f.String() && p.Protocol == "TCP"
			if p.Uncounted != want || p.Frontends[0].Uncounted || p.Frontends[1].Uncounted != want || !d.NotCounted() {
				t.Errorf("%s: %+v", atNode, p)
			}
		}
		d = &nodestatus.Document{}
		full := build.Sample{}
		full.Full[f] = true
		build.Count(d, full, build.Sample{})
		if len(d.Problems) != 1 || !strings.Contains(d.Problems[0].Text, f.String()) || !d.NotCounted() {
			t.Errorf("problems of a full set: %v", d.Problems)
		}
	}
}

// nodeAddresses returns one address of each family.
func nodeAddresses() (out []string) {
	for _, f := range model.Families {
		out = append(out, address(f, 1, 1).String())
	}
	return out
}

type tracking struct {
	entries []conntrack.Entry
	err     error
}

func (k *tracking) Each(begin func(), fn func(conntrack.Entry)) error {
	for range 2 { // as if the first walk was interrupted
		begin()
		for _, e := range k.entries {
			fn(e)
		}
	}
	return k.err
}

func TestTrackedConnectionsAreCounted(t *testing.T) {
	to, from := netip.MustParseAddrPort("10.96.0.1:80"), netip.MustParseAddrPort("10.244.0.1:8080")
	k := &tracking{entries: []conntrack.Entry{
		{Protocol: model.TCP, Original: to, Reply: from},
		{Protocol: model.TCP, Original: to, Reply: from, Offloaded: true},
		{Protocol: model.UDP, Original: to, Reply: to}, // not translated
	}}
	got, err := build.ActiveCounts(k)()
	want := nft.ConnectionCount{Destination: model.Match{Addr: to.Addr(), Protocol: model.TCP, Port: 80}, Endpoint: from, Connections: 2}
	fast := want
	fast.Connections = 1
	if err != nil || len(got.Connections) != 1 || got.Connections[0] != want || len(got.Offloaded) != 1 || got.Offloaded[0] != fast {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestReadErrorIsAProblem(t *testing.T) {
	v := loop(t, web())
	failure := errors.New("no such thing")
	answer := build.New(build.Config{
		Snapshot: func(context.Context) (sync.Snapshot, error) { return v, nil },
		Version:  "v1",
		Counts: build.Counts{
			Total:  func() (build.Sample, error) { return build.Sample{At: then}, nil },
			Active: build.ActiveCounts(&tracking{err: failure}),
		},
	})
	d, err := answer(t.Context(), nodestatus.Query{Name: "web"})
	if err != nil || !d.Counted || !d.CountedAt.Equal(then) || d.Version != "v1" || len(d.Services) != 1 {
		t.Fatalf("got %+v, %v", d, err)
	}
	if len(d.Problems) != 1 || d.Problems[0].Reason != nodestatus.ReasonUnread || d.Problems[0].Object != "Node worker-1" {
		t.Errorf("problems are %v", d.Problems)
	}
}

type slow struct {
	takes time.Duration // of each family
	reads uint64
}

func (s *slow) Uncounted(model.Family) ([]model.Match, error)     { return nil, nil }
func (s *slow) Refusals(model.Family) ([]nft.RefusalCount, error) { return nil, nil }

func (s *slow) Connections(f model.Family) ([]nft.ConnectionCount, error) {
	<-time.After(s.takes) // no real time: see package synctest
	s.reads++
	return []nft.ConnectionCount{counted(f, model.TCP, address(f, 96, 1), 80, 0, s.reads)}, nil
}

func TestCountedAtIsWhenConnectionsWereRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		active := build.ActiveCounts(&tracking{})
		counts := build.Counts{Total: build.TotalCounts(&slow{takes: 50 * time.Millisecond}), Active: active}
		for _, step := range []struct{ asked, read time.Duration }{
			{0, 0},
			{500 * time.Millisecond, 0},
			{time.Second, 0}, // the read ended later than it began
			{1200 * time.Millisecond, 1200 * time.Millisecond},
		} {
			<-time.After(time.Until(start.Add(step.asked)))
			d := &nodestatus.Document{}
			counts.AddTo(d)
			if got := d.CountedAt.Sub(start); got != step.read || !d.Counted {
				t.Errorf("asked after %s: it was read after %s, want %s", step.asked, got, step.read)
			}
		}
		d, none := &nodestatus.Document{}, &nodestatus.Document{}
		build.Counts{Active: active}.AddTo(d) // without counters
		build.Counts{}.AddTo(none)
		if got := d.CountedAt.Sub(start); got != 1300*time.Millisecond || d.Counted || !none.CountedAt.IsZero() {
			t.Errorf("active ones are read after %s, %t; nothing is read at %s", got, d.Counted, none.CountedAt)
		}
	})
}

func TestSampleIsReusedNineTimesAsLongAsItsRead(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration // of each family
		reads uint64        // of both, in 60 s
	}{
		{10 * time.Millisecond, 59},
		{50 * time.Millisecond, 55},
		{500 * time.Millisecond, 6},
		{3 * time.Second, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			rules := &slow{takes: tt.takes}
			ask := build.TotalCounts(rules)
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				if _, err := ask(); err != nil {
					t.Fatal(err)
				}
				<-time.After(10 * time.Millisecond) // no real time: see package synctest
			}
			if got := rules.reads / uint64(len(model.Families)); got != tt.reads {
				t.Errorf("if it takes %s, it was read %d times, want %d", tt.takes, got, tt.reads)
			}
		})
	}
}

func TestConcurrentAnswersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int32
		answer := build.New(build.Config{Snapshot: func(ctx context.Context) (sync.Snapshot, error) {
			looks.Add(1)
			<-ctx.Done()
			return sync.Snapshot{}, ctx.Err()
		}})
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error)
		for range 5 {
			go func() {
				_, err := answer(ctx, nodestatus.Query{})
				done <- err
			}()
		}
		synctest.Wait()
		if n := looks.Load(); n != 2 {
			t.Errorf("%d were answered at a time", n)
		}
		end()
		for range 5 {
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled request gets %v", err)
			}
		}
	})
}
