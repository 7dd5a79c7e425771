package connections

import (
	"testing"
	"testing/synctest"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

func TestFoldWaitsForUnlistedFormerEndpoints(t *testing.T) {
	run(t, func(r *rig, w way) {
		r.c.Follow(w.all(1, 2, 3))
		r.connect(w.clusterIP(), w, 1, 1, 1, 1, 1, 2, 2, 3)
		r.c.Follow(w.change(2, 3))
		r.pass(2)
		former := nft.ConnectionCount{Destination: w.clusterIP(), Connections: 5}
		r.has("with one that is removed", w, former, w.counted(w.clusterIP(), 2, 2), w.counted(w.clusterIP(), 3, 1))
		r.c.Follow(w.change(3))
		r.pass(1)
		r.listed(func(list []nft.ConnectionCount) []nft.ConnectionCount {
			if len(list) > 0 && !list[0].Endpoint.IsValid() {
				return list[1:]
			}
			return list
		})
		r.pass(1)
		r.has("when the listing misses those", w, former, w.counted(w.clusterIP(), 2, 2), w.counted(w.clusterIP(), 3, 1))
		r.listed(nil)
		r.expect("when the next one has them", w, 8, map[int]uint64{3: 1})
		r.pass(1)
		former.Connections = 7
		r.has("a clean-up later", w, former, w.counted(w.clusterIP(), 3, 1))
		r.expect("then", w, 8, map[int]uint64{3: 1})
	})
}

func TestTotalsSurviveNewAddressesAndPorts(t *testing.T) {
	for name, full := range map[string]bool{"as a change": false, "in a full commit": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig, w way) {
				before := w.service(1, 2)[:1]
				r.c.Follow(sync.Committed{Full: true, Set: before, NodeAddrs: nodes[w.f : w.f+1]})
				r.connect(w.clusterIP(), w, 1, 1, 2)
				r.expect("at first", w, 3, map[int]uint64{1: 2, 2: 1})
				after := w.service(1, 2)[:1]
				after[0].Match = w.match(clusterIPs[w.f].Next(), port)
				commit := sync.Committed{Full: full, Set: after, NodeAddrs: nodes[w.f : w.f+1]}
				if !full {
					commit.Removed = []model.Match{w.clusterIP()}
				}
				r.c.Follow(commit)
				r.expect("elsewhere", w, 3, map[int]uint64{1: 2, 2: 1})
				r.connect(after[0].Match, w, 2)
				r.expect("with more", w, 4, map[int]uint64{1: 2, 2: 2})
			})
		})
	}
}

// ofOther makes the frontends belong to another Service.
func ofOther(of []model.Frontend) []model.Frontend {
	for i := range of {
		of[i].Service.Name = "other"
	}
	return of
}

// expectOther compares the total of the other Service, which must be the only one.
func (r *rig) expectOther(when string, w way, want uint64) {
	r.Helper()
	for _, p := range r.c.Totals().Ports {
		if p.Family != w.f || p.Name != "other" || p.Connections != want {
			r.Errorf("%s %s has %d connections, want the other Service's %d", when, p.Name, p.Connections, want)
		}
		want = 0
	}
	if want != 0 {
		r.Errorf("%s nothing is counted, want %d", when, want)
	}
}

// TestCountsOfPreviousOwnerAreDropped moves frontends of all kinds, with the same
// endpoints, from one Service to another: directly, and some time after the first one
// released them.
func TestCountsOfPreviousOwnerAreDropped(t *testing.T) {
	for name, cleanUps := range map[string]int{"directly": -1, "before a clean-up": 0, "after one": 1, "after many": 5} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig, w way) {
				r.c.Follow(w.all(1, 2))
				for _, to := range []model.Match{w.clusterIP(), w.external(), w.atNode()} {
					r.connect(to, w, 1, 1, 2, 3)
				}
				node := nodes[w.f : w.f+1]
				if cleanUps >= 0 {
					r.c.Follow(sync.Committed{Full: true, NodeAddrs: node})
					r.pass(cleanUps)
				}
				r.c.Follow(sync.Committed{Set: ofOther(w.service(1, 2)), NodeAddrs: node})
				synctest.Wait()
				r.has("then", w)
				r.connect(w.clusterIP(), w, 1)
				r.connect(w.atNode(), w, 2, 2)
				r.pass(1)
				r.has("with some of its own", w, w.counted(w.clusterIP(), 1, 1), w.counted(w.atNode(), 2, 2))
				r.expectOther("with some of its own", w, 3)
			})
		})
	}
}

func TestCountsOfPreviousOwnerAreDroppedDespiteErrors(t *testing.T) {
	for name, refused := range map[string]bool{"read": false, "removed": true} {
		t.Run(name, func(t *testing.T) {
			run(t, func(r *rig, w way) {
				r.c.Follow(w.all(1, 2))
				r.connect(w.clusterIP(), w, 1, 2)
				r.kernel.broken.Store(!refused)
				r.kernel.refusing.Store(refused)
				r.c.Follow(sync.Committed{Full: true, Set: ofOther(w.service(1, 2)), NodeAddrs: nodes[w.f : w.f+1]})
				synctest.Wait()
				r.kernel.broken.Store(false)
				r.kernel.refusing.Store(false)
				r.pass(0)
				r.connect(w.clusterIP(), w, 2)
				r.pass(1)
				r.expectOther("then", w, 1)
			})
		})
	}
}

func TestTotalsSurviveReturningAddress(t *testing.T) {
	run(t, func(r *rig, w way) {
		r.c.Follow(w.all(1))
		r.connect(w.clusterIP(), w, 1)
		r.connect(w.external(), w, 1)
		r.expect("at first", w, 2, map[int]uint64{1: 2})
		node := nodes[w.f : w.f+1]
		r.c.Follow(sync.Committed{Removed: []model.Match{w.external()}, NodeAddrs: node})
		r.c.Follow(sync.Committed{Set: w.service(1)[2:], NodeAddrs: node})
		synctest.Wait()
		r.has("then", w, w.counted(w.clusterIP(), 1, 1), w.counted(w.external(), 1, 1))
		r.expect("then", w, 2, map[int]uint64{1: 2})
	})
}

// TestEndpointsAreForgotten has connections to an address that the Service loses before the
// endpoint is removed. No counter of the endpoint is then left to fold.
func TestEndpointsAreForgotten(t *testing.T) {
	run(t, func(r *rig, w way) {
		r.c.Follow(w.all(1, 2))
		r.connect(w.external(), w, 1, 2)
		r.expect("at first", w, 2, map[int]uint64{1: 1, 2: 1})
		r.c.Follow(sync.Committed{Removed: []model.Match{w.external()}, NodeAddrs: nodes[w.f : w.f+1]})
		r.pass(1)
		r.expect("without the address", w, 2, map[int]uint64{1: 1, 2: 1})
		r.c.Follow(w.change(2))
		r.pass(2)
		for _, counts := range r.c.tracker.ports {
			if _, known := counts.endpoints[w.endpoint(1)]; known || len(counts.endpoints) != 1 {
				r.Errorf("endpoints %v are known, want only the one that serves", counts.endpoints)
			}
		}
	})
}
