package connections

import (
	"strings"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

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
