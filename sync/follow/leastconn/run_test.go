package leastconn

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	stdsync "sync"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
)

// tracking is a fake of the kernel's connection tracking.
type tracking struct {
	mu      stdsync.Mutex
	entries []conntrack.Entry
	took    time.Duration // of a dump
	work    time.Duration // the part of it that is processor time
	cpuTime time.Duration
	err     error
	dumps   int
}

func (k *tracking) EachTranslated(begin func(), fn func(conntrack.Entry)) error {
	k.mu.Lock()
	took := k.took
	k.mu.Unlock()
	<-time.After(took)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dumps++
	k.cpuTime += k.work
	for range 2 { // as if the first dump had been interrupted
		begin()
		for _, e := range k.entries {
			fn(e)
		}
	}
	return k.err
}

// open adds connections to an endpoint, and returns the index of the first.
func (k *tracking) open(p model.Protocol, to netip.AddrPort, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for range n {
		id := uint32(len(k.entries)+1) * 0x9e3779b1
		k.entries = append(k.entries, conntrack.Entry{Protocol: p, Reply: to, ID: id, Open: true})
	}
}

// close closes all connections to an endpoint; the kernel remembers them.
func (k *tracking) close(to netip.AddrPort) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.entries {
		if k.entries[i].Reply == to {
			k.entries[i].Open = false
		}
	}
}

// set sets how long a dump takes, with how much work, and its error.
func (k *tracking) set(took, work time.Duration, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.took, k.work, k.err = took, work, err
}

// used returns the processor time of all dumps.
func (k *tracking) used() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cpuTime
}

// takeDumps returns the number of dumps since the last call.
func (k *tracking) takeDumps() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.dumps
	k.dumps = 0
	return n
}

// A rig runs LeastConnections in a bubble of synctest.
type rig struct {
	*LeastConnections
	t *testing.T
	way
	kernel  *tracking
	log     bytes.Buffer
	shares  chan []model.Overlay
	started bool
}

// A way is a family and a protocol.
type way struct {
	f model.Family
	p model.Protocol
}

// run runs the test for each family and protocol.
func run(t *testing.T, test func(*rig)) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			t.Run(f.String()+"/"+p.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := &rig{t: t, way: way{f, p}, kernel: &tracking{}, shares: make(chan []model.Overlay, 10)}
					r.LeastConnections = New(Config{
						Tracking: r.kernel, Overlays: r.shares, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
					})
					r.pace.ProcessorTime = r.kernel.used
					go func() {
						if err := r.Run(t.Context()); err != nil {
							t.Errorf("Run: %v", err)
						}
					}()
					test(r)
				})
			})
		}
	}
}

var (
	services = [...]netip.Addr{netip.MustParseAddr("10.96.0.0"), netip.MustParseAddr("fd00:10:96::")}
	pods     = [...]netip.Addr{netip.MustParseAddr("10.128.0.0"), netip.MustParseAddr("fd00:10:128::")}
)

// address returns address n of a range.
func address(first netip.Addr, n int) netip.Addr {
	b := first.AsSlice()
	for i := len(b) - 1; n > 0; i-- {
		b[i] += byte(n)
		n >>= 8
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func (w way) endpoint(n int) netip.AddrPort { return netip.AddrPortFrom(address(pods[w.f], n), 8080) }

// frontend returns Service number i with these endpoints.
func (w way) frontend(i int, endpoints ...int) model.Frontend {
	m := model.Match{Family: w.f, Addr: address(services[w.f], i), Protocol: w.p, Port: 80}
	pool := &model.Pool{Key: m, Scheduler: model.SchedulerLeastConnections}
	for _, n := range endpoints {
		pool.Cluster = append(pool.Cluster, w.endpoint(n))
	}
	return model.Frontend{Match: m, Pool: pool}
}

// commit commits frontends. The first time it waits for half a period, to make the test
// look between observations.
func (r *rig) commit(frontends ...model.Frontend) {
	r.Follow(sync.Committed{Set: frontends})
	if !r.started {
		<-time.After(time.Second / 2)
	}
	r.started = true
}

// expect waits for some time and compares what was sent meanwhile: "1: 8 0" are the shares of
// Service 1, "1: -" are shares by its weights.
func (r *rig) expect(when string, after time.Duration, want ...string) {
	r.t.Helper()
	<-time.After(after)
	synctest.Wait()
	var got []string
	for len(r.shares) > 0 {
		for _, o := range <-r.shares {
			s := o.(model.PoolShares)
			b := s.Key.Addr.AsSlice()
			shares := "-"
			if s.Cluster.Shares != nil {
				shares = strings.Trim(fmt.Sprint(s.Cluster.Shares), "[]")
			}
			got = append(got, fmt.Sprintf("%d: %s", b[len(b)-1], shares))
		}
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: sent %q, want %q", when, got, want)
	}
}

func TestNothingIsReadWithoutAPool(t *testing.T) {
	run(t, func(r *rig) {
		other := r.frontend(1, 1, 2)
		other.Pool.Scheduler = model.SchedulerRandom
		r.Follow(sync.Committed{Full: true, Set: []model.Frontend{other}})
		r.expect("with another scheduler", time.Hour)
		if n := r.kernel.takeDumps(); n != 0 {
			r.t.Errorf("read %d times", n)
		}
		r.commit(r.frontend(2, 1, 2))
		r.expect("with a pool", 9*time.Second)
		if n := r.kernel.takeDumps(); n != 9 {
			r.t.Errorf("read %d times in 9 seconds", n)
		}
		r.Follow(sync.Committed{Removed: []model.Match{r.frontend(2).Match}})
		r.expect("when it is removed", time.Second)
		r.kernel.takeDumps()
		r.expect("when it is removed", time.Hour)
		if n := r.kernel.takeDumps(); n != 0 {
			r.t.Errorf("read %d times", n)
		}
	})
}

func TestPauseIsSeventyTimesTheWork(t *testing.T) {
	run(t, func(r *rig) {
		r.kernel.set(400*time.Millisecond, 300*time.Millisecond, nil)
		r.commit(r.frontend(1, 1, 2))
		r.expect("from the start", 10*time.Minute)
		if n := r.kernel.takeDumps(); n < 27 || n > 29 {
			r.t.Errorf("read %d times in 10 minutes, want every 21 seconds", n)
		}
		r.kernel.set(400*time.Millisecond, 0, nil) // other programs have the processor
		r.expect("on a busy node", 10*time.Minute)
		if n := r.kernel.takeDumps(); n < 400 {
			r.t.Errorf("read %d times in 10 minutes, want every 1.4 seconds", n)
		}
		r.kernel.set(0, 0, nil)
		r.expect("at the end", time.Minute)
	})
}

func TestSharesFollowConnections(t *testing.T) {
	run(t, func(r *rig) {
		r.kernel.open(r.p, r.endpoint(1), 50)
		r.kernel.open(r.p, r.endpoint(2), 50)
		r.commit(r.frontend(1, 1, 2), r.frontend(3, 7, 8))
		r.expect("without knowing arrivals", time.Second)
		r.expect("when all are equal", time.Second)
		r.commit(r.frontend(1, 1, 2, 3))
		r.expect("with a new endpoint", time.Second, "1: 0 0 12")
		r.expect("without change", 10*time.Second)
		r.kernel.open(r.p, r.endpoint(3), 50)
		r.expect("when it has as many", time.Second, "1: -")
		r.kernel.close(r.endpoint(2))
		r.expect("when one has closed all", time.Second, "1: 0 12 0")
	})
}

func TestSharesFollowWeights(t *testing.T) {
	run(t, func(r *rig) {
		web := r.frontend(1, 1, 2, 3)
		web.Pool.ClusterWeights, web.Pool.ClusterShares = []uint16{2, 1, 1}, []uint16{2, 1, 1}
		r.kernel.open(r.p, r.endpoint(1), 60)
		r.kernel.open(r.p, r.endpoint(2), 30)
		r.kernel.open(r.p, r.endpoint(3), 30)
		r.commit(web)
		r.expect("in proportion to weights", 5*time.Second)
		r.kernel.open(r.p, r.endpoint(2), 30)
		r.expect("with more at one", 10*time.Second, "1: 8 0 4")
		web = r.frontend(1, 1, 2, 3)
		web.Pool.ClusterWeights, web.Pool.ClusterShares = []uint16{1, 1, 2}, []uint16{1, 1, 2}
		r.commit(web)
		r.expect("with other weights", time.Second, "1: 0 0 12")
	})
}

func TestSharesOfBothLists(t *testing.T) {
	run(t, func(r *rig) {
		web := r.frontend(1, 1, 2, 3)
		web.Pool.Local = web.Pool.Cluster[:2]
		r.kernel.open(r.p, r.endpoint(1), 50)
		r.commit(web)
		<-time.After(2 * time.Second)
		got := (<-r.shares)[0].(model.PoolShares)
		if !slices.Equal(got.Cluster.Shares, []uint16{0, 6, 6}) || !slices.Equal(got.Local.Shares, []uint16{0, 8}) ||
			!slices.Equal(got.Local.Endpoints, web.Pool.Local) {
			r.t.Errorf("sent %v", got)
		}
	})
}

func TestSharesOfOtherEndpointsAreForgotten(t *testing.T) {
	run(t, func(r *rig) {
		r.kernel.open(r.p, r.endpoint(1), 50)
		r.commit(r.frontend(1, 1, 2))
		r.expect("at first", 2*time.Second, "1: 0 8")
		r.commit(r.frontend(1, 1, 3))
		r.expect("when an endpoint is replaced", time.Second, "1: 0 8")
		r.commit(r.frontend(1, 1))
		r.expect("with one endpoint", time.Second)
		r.Follow(sync.Committed{Full: true, Set: []model.Frontend{r.frontend(1, 1, 3)}})
		r.expect("with two again", time.Second, "1: 0 8")
		shared := r.frontend(1, 1, 3)
		shared.Pool.ClusterShares = []uint16{0, 8}
		r.Follow(sync.Committed{Full: true, Set: []model.Frontend{shared}})
		r.expect("when all is committed again", time.Second)
		r.Follow(sync.Committed{Full: true, Set: []model.Frontend{r.frontend(1, 1, 3)}})
		r.expect("when all is committed without them", time.Second, "1: 0 8")
	})
}

// The Service port was refused by the kernel for a while, for instance. Its endpoints have few
// connections; an endpoint without any slot would never get one.
func TestSharesThatAreInEffectStillAreReplaced(t *testing.T) {
	run(t, func(r *rig) {
		web, weighted := r.frontend(1, 1, 2), r.frontend(2, 3, 4)
		web.Pool.ClusterShares = []uint16{0, 8}
		weighted.Pool.ClusterWeights, weighted.Pool.ClusterShares = []uint16{1, 2}, []uint16{8, 0}
		r.commit(web, weighted)
		r.expect("with shares of an earlier time", 2*time.Second, "1: -", "2: -")
		web, weighted = r.frontend(1, 1, 2), r.frontend(2, 3, 4)
		weighted.Pool.ClusterWeights, weighted.Pool.ClusterShares = []uint16{1, 2}, []uint16{1, 2}
		r.commit(web, weighted)
		r.expect("with shares by weights", 2*time.Second)
	})
}

// failForTenSeconds has two endpoints, one with connections, when observations begin to fail.
func (r *rig) failForTenSeconds() {
	r.kernel.open(r.p, r.endpoint(1), 50)
	r.commit(r.frontend(1, 1, 2))
	r.expect("at first", 2*time.Second, "1: 0 8")
	r.kernel.set(0, 0, errors.New("interrupted"))
	r.expect("when it fails", 10*time.Second, "1: -")
}

func TestFailureLeadsBackToWeights(t *testing.T) {
	run(t, func(r *rig) {
		r.failForTenSeconds()
		r.kernel.set(0, 0, nil)
		r.expect("when it works again", time.Second, "1: 0 8")
		if log := r.log.String(); strings.Count(log, "interrupted") != 1 || strings.Count(log, "again") != 1 {
			r.t.Errorf("logged\n%s", log)
		}
	})
}

// TestArrivalsDuringAFailureCountForItsTime is about connections that arrive in ten seconds: few
// for the difference between two endpoints, which they would hide had they arrived in one.
func TestArrivalsDuringAFailureCountForItsTime(t *testing.T) {
	run(t, func(r *rig) {
		r.failForTenSeconds()
		r.kernel.open(r.p, r.endpoint(1), 200)
		r.kernel.open(r.p, r.endpoint(2), 200)
		r.kernel.set(0, 0, nil)
		r.expect("when it works again", time.Second, "1: 1 7")
	})
}
