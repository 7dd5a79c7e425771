package connections

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
	"kube-vmap/sync/throttle"
)

// The numbers of frontends and of their endpoints that give a Service more than three
// quarters of the counters.
const (
	manyFrontends = 400
	manyEndpoints = 250
)

var crowd = model.ServiceName{Namespace: "crowd", Name: "many"}

// crowd returns a commit of a Service of another namespace with many frontends, and fills the set.
func (r *rig) crowd(w way) sync.Committed {
	r.kernel.mu.Lock()
	defer r.kernel.mu.Unlock()
	t := sync.Committed{NodeAddrs: nodes[w.f : w.f+1]}
	pool := &model.Pool{Key: w.match(externals[w.f], 1), UID: "uid"}
	for n := range manyEndpoints {
		pool.Cluster = append(pool.Cluster, w.endpoint(n))
	}
	name := model.ServicePortName{ServiceName: crowd, Protocol: w.p}
	for n := range uint16(manyFrontends) {
		m := w.match(externals[w.f], 1+n)
		t.Set = append(t.Set, model.Frontend{Match: m, Service: name, Kind: model.KindExternalIP, Pool: pool})
		for _, e := range pool.Cluster {
			r.kernel.Connect(m, e)
		}
	}
	return t
}

// uncounted lists the destinations that the kernel does not count.
func (r *rig) uncounted(w way) []model.Match {
	r.Helper()
	r.kernel.mu.Lock()
	defer r.kernel.mu.Unlock()
	list, err := r.kernel.Kernel.Uncounted(w.f)
	if err != nil {
		r.Fatal(err)
	}
	return list
}

func TestNamespaceBeyondItsShareIsEvicted(t *testing.T) {
	run(t, func(r *rig, w way) {
		if w.p != model.UDP {
			return // the same for all protocols, and slow
		}
		r.c.Follow(w.all(1, 2))
		r.connect(w.clusterIP(), w, 1, 1, 2)
		many := r.crowd(w)
		many.Set = slices.DeleteFunc(many.Set, func(f model.Frontend) bool { return f.Match == w.external() })
		r.c.Follow(many)
		<-time.After(minReadInterval)
		before := r.c.Totals()
		if out := r.uncounted(w); len(out) < manyFrontends/4 || slices.Contains(out, w.clusterIP()) {
			r.Errorf("%d frontends are not counted: %v", len(out), out)
		}
		r.kernel.mu.Lock()
		list, _ := r.kernel.Kernel.Connections(w.f)
		r.kernel.mu.Unlock()
		of := sync.Object{Kind: "Service", Namespace: crowd.Namespace, Name: crowd.Name, UID: "uid"}
		if !slices.Equal(r.events, []sync.Object{of}) {
			r.Errorf("events of %+v, want %+v", r.events, of)
		}
		if len(list) > capacity {
			r.Errorf("%d counters remain, want at most %d", len(list), capacity)
		}
		r.connect(w.clusterIP(), w, 1)
		<-time.After(minReadInterval)
		after := r.c.Totals()
		for i, of := range after.Ports {
			want := before.Ports[i].Connections
			if of.Namespace == "shop" {
				want++
			}
			if of.Connections != want {
				r.Errorf("%s: %d connections, want %d", of.ServicePortName, of.Connections, want)
			}
		}
		if len(after.Ports) != 2 || after.Uncounted[w.f] != len(r.uncounted(w)) {
			r.Errorf("%d Service ports, %d uncounted frontends", len(after.Ports), after.Uncounted[w.f])
		}
	})
}

// TestPartialEvictionIsReported refuses the second transaction.
func TestPartialEvictionIsReported(t *testing.T) {
	run(t, func(r *rig, w way) {
		if w.p != model.UDP {
			return // the same for all protocols, and slow
		}
		r.kernel.accepts.Store(2)
		r.c.Follow(r.crowd(w))
		<-time.After(minReadInterval)
		r.c.Totals()
		out := len(r.uncounted(w))
		want := fmt.Sprintf(" namespace=crowd frontends=%d ", out)
		if log := r.log.String(); out == 0 || len(r.events) != 1 || !strings.Contains(log, want) ||
			!strings.Contains(log, "not up to date") {
			r.Errorf("%d frontends are not counted, events of %v, log:\n%s", out, r.events, log)
		}
	})
}

func TestRisingCounterCausesEviction(t *testing.T) {
	run(t, func(r *rig, w way) {
		r.c.Follow(w.all(1))
		<-time.After(pollPeriod + time.Millisecond)
		synctest.Wait()
		reads := r.reads()
		<-time.After(3 * pollPeriod)
		synctest.Wait()
		if n := r.reads(); n != reads {
			r.Errorf("%d reads without a rise", n-reads)
		}
		r.kernel.full.Store(7)
		<-time.After(pollPeriod)
		synctest.Wait()
		if n := r.reads(); n != reads+len(model.Families) {
			r.Errorf("%d reads after a rise", n-reads)
		}
		if got := r.c.Totals().NotCounted[w.f]; got != 7 {
			r.Errorf("%d connections not counted, want 7", got)
		}
	})
}

// TestRiseDuringPauseCausesEviction has the counter rise after a read that took long, and never again.
func TestRiseDuringPauseCausesEviction(t *testing.T) {
	run(t, func(r *rig, w way) {
		r.c.Follow(w.all(1))
		r.listed(func(list []nft.ConnectionCount) []nft.ConnectionCount {
			<-time.After(100 * time.Millisecond)
			return list
		})
		for n, wait := range []time.Duration{2 * pollPeriod, 10 * pollPeriod} {
			before := r.reads()
			r.kernel.full.Store(uint64(n) + 1)
			<-time.After(wait)
			if r.reads() == before {
				r.Errorf("no read after rise %d", n+1)
			}
		}
	})
}

// A kernel without memory does not count connections although the set is not full.
func TestReadsThatEvictNothingAreRare(t *testing.T) {
	run(t, func(r *rig, w way) {
		r.c.Follow(w.all(1))
		var reading atomic.Int64
		r.listed(func(list []nft.ConnectionCount) []nft.ConnectionCount {
			<-time.After(100 * time.Millisecond)
			reading.Add(int64(100 * time.Millisecond))
			return list
		})
		for n := range uint64(60) {
			r.kernel.full.Store(n)
			<-time.After(pollPeriod)
		}
		if took := time.Duration(reading.Load()); took > time.Minute/throttle.BudgetParts {
			r.Errorf("reading took %s of a minute", took)
		}
	})
}

// reads is how often a listing was read.
func (r *rig) reads() int {
	r.kernel.mu.Lock()
	defer r.kernel.mu.Unlock()
	return r.kernel.reads
}

func TestTotalsDoNotWaitForALongRead(t *testing.T) {
	run(t, func(r *rig, w way) {
		r.c.Follow(w.all(1))
		r.connect(w.clusterIP(), w, 1)
		r.expect("before", w, 1, map[int]uint64{1: 1})
		r.connect(w.clusterIP(), w, 1)
		r.listed(func(list []nft.ConnectionCount) []nft.ConnectionCount {
			<-time.After(time.Minute)
			return list
		})
		<-time.After(minReadInterval)
		start := time.Now()
		got := r.c.Totals().Ports
		if took := time.Since(start); took != maxWait {
			r.Errorf("waited %s, want %s", took, maxWait)
		}
		if len(got) != 1 || got[0].Connections != 1 {
			r.Errorf("totals %+v, want the totals of the last read", got)
		}
		<-time.After(3 * time.Minute)
		if got := r.c.Totals().Ports; got[0].Connections != 2 {
			r.Errorf("totals %+v, want 2 connections after the read", got)
		}
	})
}

func TestRefusedRemovalStaysStale(t *testing.T) {
	run(t, func(r *rig, w way) {
		unknown := w.match(externals[w.f].Next(), 443)
		r.c.Follow(w.all(1, 2))
		r.connect(w.clusterIP(), w, 1, 2)
		r.connect(unknown, w, 1)
		r.c.Follow(w.change(2))
		r.kernel.refusing.Store(true)
		r.pass(2)
		r.has("while it is refused", w, w.counted(w.clusterIP(), 1, 1), w.counted(w.clusterIP(), 2, 1), w.counted(unknown, 1, 1))
		r.kernel.refusing.Store(false)
		r.pass(1)
		r.has("a clean-up later", w, nft.ConnectionCount{Destination: w.clusterIP(), Connections: 1}, w.counted(w.clusterIP(), 2, 1))
		r.expect("a clean-up later", w, 2, map[int]uint64{2: 1})
	})
}

func TestFullSetIsLoggedOnce(t *testing.T) {
	run(t, func(r *rig, w way) {
		if w.p != model.UDP {
			return // the same for all protocols, and slow
		}
		r.kernel.refusing.Store(true) // to evict elements
		for _, step := range []struct{ counters, logged int }{
			{nft.MaxConnectionCounts / 2, 0},
			{nft.MaxConnectionCounts, 1},
			{nft.MaxConnectionCounts - 1, 1},
			{1, 1},
			{nft.MaxConnectionCounts, 2},
		} {
			r.listed(func([]nft.ConnectionCount) []nft.ConnectionCount {
				list := make([]nft.ConnectionCount, step.counters)
				for i := range list {
					list[i] = nft.ConnectionCount{Destination: w.match(externals[w.f], uint16(i)), Connections: 1}
				}
				return list
			})
			<-time.After(minReadInterval)
			totals, logged := r.c.Totals(), strings.Count(r.log.String(), "counters full")
			if n := step.counters; logged != step.logged*len(model.Families) || totals.Counters != [...]int{n, n} {
				r.Errorf("with %d counters: logged %d times, counters %v", n, logged, totals.Counters)
			}
		}
	})
}

func TestRemovalsAreBatched(t *testing.T) {
	const addresses, endpoints = 50, 100
	run(t, func(r *rig, w way) {
		all, one := w.all(), w.service()[1]
		for n := range addresses {
			one.Match = w.match(externals[w.f], uint16(1000+n))
			all.Set = append(all.Set, one)
		}
		r.c.Follow(all)
		var want []nft.ConnectionCount
		for n := range addresses {
			for e := range endpoints {
				r.connect(w.match(externals[w.f], uint16(1000+n)), w, e)
			}
			want = append(want, nft.ConnectionCount{Destination: w.match(externals[w.f], uint16(1000+n)), Connections: endpoints})
		}
		r.pass(2)
		r.has("then", w, want...)
		if n := len(r.kernel.applied); n < 2 || n > addresses*endpoints/batchSize+1 {
			r.Errorf("%d transactions", n)
		}
		r.expect("then", w, addresses*endpoints, nil)
	})
}
