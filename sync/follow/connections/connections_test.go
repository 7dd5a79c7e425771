package connections

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	stdsync "sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/nft/wire"
	"kube-vmap/sync"
)

// kernel is a fake that can fail and return incomplete listings.
type kernel struct {
	mu stdsync.Mutex // guards all but the atomics
	*kerneltest.Kernel
	broken, refusing atomic.Bool
	accepts          atomic.Int64 // one more than the transactions before one is refused; zero refuses none
	// listed changes a listing, if not nil.
	listed  func([]nft.ConnectionCount) []nft.ConnectionCount
	reads   int
	full    atomic.Uint64 // connections that were not counted
	applied []nft.Batch
}

func (k *kernel) Connections(f model.Family) ([]nft.ConnectionCount, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	if k.broken.Load() {
		return nil, unix.ENOBUFS
	}
	list, err := k.Kernel.Connections(f)
	if k.listed != nil {
		list = k.listed(list)
	}
	return list, err
}

func (k *kernel) Counters(model.Family) (out [nft.Counters]uint64, err error) {
	out[nft.CounterConnectionsFull] = k.full.Load()
	return out, nil
}

func (k *kernel) Uncounted(f model.Family) ([]model.Match, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.Kernel.Uncounted(f)
}

func (k *kernel) Apply(b nft.Batch) (nft.Applied, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refusing.Load() || k.accepts.Add(-1) == 0 {
		return nft.Applied{}, &wire.Error{Op: b[0], Errno: unix.EPERM}
	}
	k.applied = append(k.applied, b)
	return k.Kernel.Apply(b)
}

// A rig is a kernel that counts, and the Connections under test.
type rig struct {
	*testing.T
	kernel *kernel
	c      *Connections
	log    bytes.Buffer
	events []sync.Object
}

// Warn implements [sync.Recorder].
func (r *rig) Warn(o sync.Object, _, _ string) { r.events = append(r.events, o) }

// run runs a test in a bubble of synctest, for every family and protocol.
func run(t *testing.T, do func(r *rig, w way)) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			t.Run(f.String()+"/"+p.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := &rig{T: t, kernel: &kernel{Kernel: kerneltest.New()}}
					r.load()
					r.c = New(Config{Kernel: r.kernel, Log: slog.New(slog.NewTextHandler(&r.log, nil)), Recorder: r})
					r.c.pace.ProcessorTime = nil
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error)
					go func() { done <- r.c.Run(ctx) }()
					do(r, way{f, p})
					synctest.Wait()
					cancel()
					if err := <-done; err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// load creates tables that count.
func (r *rig) load() {
	r.Helper()
	_, batch := nft.Adopt(nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, CountConnections: true}, nft.Tables{}, nft.Change{})
	if _, err := r.kernel.Kernel.Apply(batch); err != nil {
		r.Fatal(err)
	}
}

// recreate deletes the tables and creates them again.
func (r *rig) recreate() {
	r.Helper()
	r.kernel.mu.Lock()
	defer r.kernel.mu.Unlock()
	for _, f := range model.Families {
		if _, err := r.kernel.Kernel.Apply(nft.Batch{nft.DeleteTable{Family: f}}); err != nil {
			r.Fatal(err)
		}
	}
	r.load()
}

// A way is a family and a protocol.
type way struct {
	f model.Family
	p model.Protocol
}

var (
	clusterIPs = [...]netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00:10:96::a")}
	externals  = [...]netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8:e::1")}
	nodes      = [...]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	pods       = [...]netip.Addr{netip.MustParseAddr("10.244.0.1"), netip.MustParseAddr("fd00:10:244::1")}
)

const (
	port     = 80
	nodePort = 30080
)

func (w way) match(a netip.Addr, n uint16) model.Match {
	return model.Match{Family: w.f, Addr: a, Protocol: w.p, Port: n}
}

func (w way) clusterIP() model.Match { return w.match(clusterIPs[w.f], port) }
func (w way) external() model.Match  { return w.match(externals[w.f], port) }
func (w way) atNode() model.Match    { return w.match(nodes[w.f], nodePort) }

// endpoint returns the n-th endpoint.
func (w way) endpoint(n int) netip.AddrPort {
	a := pods[w.f]
	for range n {
		a = a.Next()
	}
	return netip.AddrPortFrom(a, 8080)
}

// service returns frontends of all kinds with these endpoints.
func (w way) service(endpoints ...int) []model.Frontend {
	name := model.ServicePortName{ServiceName: model.ServiceName{Namespace: "shop", Name: "web"}, Port: "http", Protocol: w.p}
	pool := &model.Pool{Key: w.clusterIP()}
	for _, n := range endpoints {
		pool.Cluster = append(pool.Cluster, w.endpoint(n))
	}
	return []model.Frontend{
		{Match: w.clusterIP(), Service: name, Pool: pool},
		{Match: w.match(netip.Addr{}, nodePort), Service: name, Kind: model.KindNodePort, Pool: pool},
		{Match: w.external(), Service: name, Kind: model.KindExternalIP, Pool: pool},
	}
}

// all returns the first commit, with all frontends.
func (w way) all(endpoints ...int) sync.Committed {
	return sync.Committed{Full: true, Set: w.service(endpoints...), NodeAddrs: nodes[w.f : w.f+1]}
}

// change returns a commit that changes endpoints; it has only the ClusterIP's frontend.
func (w way) change(endpoints ...int) sync.Committed {
	return sync.Committed{Set: w.service(endpoints...)[:1], NodeAddrs: nodes[w.f : w.f+1]}
}

// connect counts connections to endpoints.
func (r *rig) connect(to model.Match, w way, endpoints ...int) {
	r.kernel.mu.Lock()
	defer r.kernel.mu.Unlock()
	for _, n := range endpoints {
		r.kernel.Connect(to, w.endpoint(n))
	}
}

// listed changes the kernel's listings.
func (r *rig) listed(by func([]nft.ConnectionCount) []nft.ConnectionCount) {
	r.kernel.mu.Lock()
	defer r.kernel.mu.Unlock()
	r.kernel.listed = by
}

// pass waits for clean-ups.
func (r *rig) pass(periods int) {
	<-time.After(time.Duration(periods)*cleanUpPeriod + minReadInterval)
	synctest.Wait()
}

// expect compares the totals, of all and of each endpoint.
func (r *rig) expect(when string, w way, total uint64, endpoints map[int]uint64) {
	r.Helper()
	<-time.After(minReadInterval)
	var want []PortTotal
	if total > 0 {
		of := PortTotal{Port: Port{w.service()[0].Service, w.f}, Number: port, Connections: total}
		for n := range 10 {
			if c, known := endpoints[n]; known {
				of.Endpoints = append(of.Endpoints, EndpointTotal{w.endpoint(n), c})
			}
		}
		want = []PortTotal{of}
	}
	got := r.c.Totals().Ports
	if len(got) != len(want) || len(got) > 0 && (got[0].Port != want[0].Port || got[0].Number != want[0].Number ||
		got[0].Connections != want[0].Connections || !slices.Equal(got[0].Endpoints, want[0].Endpoints)) {
		r.Errorf("%s: totals %+v, want %+v", when, got, want)
	}
}

// has compares the elements in the kernel.
func (r *rig) has(when string, w way, want ...nft.ConnectionCount) {
	r.Helper()
	r.kernel.mu.Lock()
	defer r.kernel.mu.Unlock()
	got, err := r.kernel.Kernel.Connections(w.f)
	if err != nil {
		r.Fatal(err)
	}
	if want = nft.SortConnections(want); !slices.Equal(got, want) {
		r.Errorf("%s: the kernel has %v, want %v", when, got, want)
	}
}

func (w way) counted(m model.Match, endpoint int, n uint64) nft.ConnectionCount {
	return nft.ConnectionCount{Destination: m, Endpoint: w.endpoint(endpoint), Connections: n}
}

func TestTotalsCoverAllFrontendsOfAServicePort(t *testing.T) {
	run(t, func(r *rig, w way) {
		r.connect(w.clusterIP(), w, 1, 1, 2)
		r.c.Follow(w.all(1, 2, 3))
		r.expect("connections before the start", w, 3, map[int]uint64{1: 2, 2: 1})
		r.connect(w.external(), w, 1)
		r.connect(w.atNode(), w, 2, 3)
		r.connect(w.match(externals[w.f].Next(), port), w, 1) // without a Service
		r.connect(w.match(nodes[w.f], port), w, 1)
		r.expect("with more", w, 6, map[int]uint64{1: 3, 2: 2, 3: 1})
	})
}

func TestStaleCountsAreFolded(t *testing.T) {
	run(t, func(r *rig, w way) {
		r.c.Follow(w.all(1, 2, 3))
		r.connect(w.clusterIP(), w, 1, 1, 2, 3)
		r.connect(w.external(), w, 1, 2)
		r.expect("at first", w, 6, map[int]uint64{1: 3, 2: 2, 3: 1})
		r.c.Follow(w.change(2, 3))
		synctest.Wait()
		r.expect("without an endpoint", w, 6, map[int]uint64{2: 2, 3: 1})
		r.pass(1)
		r.has("after one clean-up", w, w.counted(w.clusterIP(), 1, 2), w.counted(w.clusterIP(), 2, 1), w.counted(w.clusterIP(), 3, 1),
			w.counted(w.external(), 1, 1), w.counted(w.external(), 2, 1))
		r.connect(w.clusterIP(), w, 1) // late
		r.pass(1)
		former := nft.ConnectionCount{Destination: w.clusterIP(), Connections: 3}
		r.has("after two", w, former, w.counted(w.clusterIP(), 2, 1), w.counted(w.clusterIP(), 3, 1),
			nft.ConnectionCount{Destination: w.external(), Connections: 1}, w.counted(w.external(), 2, 1))
		r.expect("then", w, 7, map[int]uint64{2: 2, 3: 1})
		r.c.Follow(w.change(3))
		r.pass(2)
		former.Connections = 4
		r.has("when another is removed", w, former, w.counted(w.clusterIP(), 3, 1), nft.ConnectionCount{Destination: w.external(), Connections: 2})
		r.expect("then", w, 7, map[int]uint64{3: 1})
		r.c.Follow(w.change(1, 3))
		r.connect(w.clusterIP(), w, 1)
		r.expect("when one is back", w, 8, map[int]uint64{1: 1, 3: 1})
		if n := len(r.kernel.applied); n != 2 {
			r.Errorf("%d transactions, want 2", n)
		}
	})
}

func TestReturningEndpointKeepsItsCount(t *testing.T) {
	run(t, func(r *rig, w way) {
		r.c.Follow(w.all(1, 2))
		r.connect(w.clusterIP(), w, 1, 2)
		r.c.Follow(w.change(2))
		r.pass(1)
		r.c.Follow(w.change(1, 2))
		synctest.Wait()
		r.c.Follow(w.change(2)) // not removed for long enough again
		r.pass(1)
		r.has("when it was back in between", w, w.counted(w.clusterIP(), 1, 1), w.counted(w.clusterIP(), 2, 1))
		r.pass(1)
		r.has("when it was not", w, nft.ConnectionCount{Destination: w.clusterIP(), Connections: 1}, w.counted(w.clusterIP(), 2, 1))
	})
}

func TestCountsOfUnknownFrontendsAreRemoved(t *testing.T) {
	run(t, func(r *rig, w way) {
		unknown := w.match(externals[w.f].Next(), 443)
		r.c.Follow(w.all(1))
		r.connect(unknown, w, 1, 2)
		r.connect(w.external(), w, 1)
		r.connect(w.atNode(), w, 1)
		r.expect("at first", w, 2, map[int]uint64{1: 2})
		r.c.Follow(sync.Committed{Removed: []model.Match{w.external()}, NodeAddrs: nodes[w.f : w.f+1]})
		r.pass(1)
		r.connect(unknown, w, 1)
		r.pass(2)
		r.has("then", w, w.counted(w.atNode(), 1, 1))
		r.expect("then", w, 2, map[int]uint64{1: 2}) // totals never decrease
		r.connect(w.external(), w, 1)
		r.c.Follow(sync.Committed{Set: w.service(1)[2:], NodeAddrs: nodes[w.f : w.f+1]})
		r.expect("when the address is back", w, 3, map[int]uint64{1: 3})
		r.c.Follow(sync.Committed{Full: true})
		r.pass(3)
		r.has("without any Service", w)
		r.expect("without any Service", w, 0, nil)
	})
}

func TestTotalsNeverDecrease(t *testing.T) {
	run(t, func(r *rig, w way) {
		r.c.Follow(w.all(1, 2))
		r.connect(w.clusterIP(), w, 1, 1, 1, 2)
		r.expect("at first", w, 4, map[int]uint64{1: 3, 2: 1})
		r.listed(func(list []nft.ConnectionCount) []nft.ConnectionCount { return list[:0] })
		r.expect("when a listing misses all", w, 4, map[int]uint64{1: 3, 2: 1})
		r.listed(nil)
		r.expect("when the next one has them", w, 4, map[int]uint64{1: 3, 2: 1})
		r.kernel.broken.Store(true)
		r.connect(w.clusterIP(), w, 2)
		r.expect("when the kernel cannot be read", w, 4, map[int]uint64{1: 3, 2: 1})
		r.kernel.broken.Store(false)
		r.expect("when it can", w, 5, map[int]uint64{1: 3, 2: 2})
		if text := r.log.String(); strings.Count(text, "not up to date") != 1 || strings.Count(text, "up to date again") != 1 {
			r.Errorf("log:\n%s", text)
		}
		r.recreate()
		r.connect(w.clusterIP(), w, 1)
		r.expect("when the tables were created again", w, 6, map[int]uint64{1: 4, 2: 2})
		r.pass(3)
		r.expect("long after", w, 6, map[int]uint64{1: 4, 2: 2})
		r.connect(w.clusterIP(), w, 2)
		r.expect("with counters from zero", w, 7, map[int]uint64{1: 4, 2: 3})
	})
}

func TestKernelReadsAreRateLimited(t *testing.T) {
	run(t, func(r *rig, w way) {
		r.c.Follow(w.all(1))
		for range 10 {
			r.c.Totals()
			<-time.After(minReadInterval / 5)
		}
		if r.kernel.reads != 2*len(model.Families) {
			r.Errorf("%d reads in two seconds", r.kernel.reads)
		}
	})
}
