package model

import (
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// check asks for the changes and holds them against the book.
func (h *history) check() {
	h.Helper()
	got := h.m.Changes()
	h.apply(got)

	book := h.now.byTheBook()
	want := slices.SortedFunc(maps.Values(book.held), compareFrontends)
	checkExactly(h.T, h.m.Frontends(), want)
	var byService []Frontend
	for name := range h.m.services {
		byService = append(byService, h.m.FrontendsOf(name)...)
	}
	slices.SortFunc(byService, compareFrontends)
	checkExactly(h.T, byService, want)
	programmed := slices.SortedFunc(maps.Values(h.programmed), compareFrontends)
	if !slices.EqualFunc(programmed, want, sameByTheBook) {
		h.Errorf("programmed\n%s\nwant\n%s", frontendLines(programmed), frontendLines(want))
	}
	if h.m.Len() != len(h.now.services) {
		h.Errorf("%d Services, want %d", h.m.Len(), len(h.now.services))
	}
	if h.m.NoLocalEndpoints() != book.notLocal {
		h.Errorf("not local are %v, want %v", h.m.NoLocalEndpoints(), book.notLocal)
	}
	if !maps.Equal(h.healthChecks, book.health) {
		h.Errorf("health checks: got %v, want %v", h.healthChecks, book.health)
	}
	h.checkConflicts(got.Conflicts, book.lost)
	if all := h.m.Conflicts(); len(all) != len(book.lost) || slices.ContainsFunc(all, func(c Conflict) bool { _, ok := book.lost[c]; return !ok }) {
		h.Errorf("conflicts: got %v, want %v", all, book.lost)
	}
	all := h.m.HealthChecks()
	if len(all) != len(book.health) || slices.ContainsFunc(all, func(c HealthCheck) bool { return c != book.health[c.Service] }) {
		h.Errorf("all health checks: got %v, want %v", all, book.health)
	}
	if !slices.IsSortedFunc(all, func(a, b HealthCheck) int { return a.Service.Compare(b.Service) }) {
		h.Errorf("health checks are not sorted: %v", all)
	}
	if h.m.ConflictCount() != len(book.lost) {
		h.Errorf("%d conflicts, want %d", h.m.ConflictCount(), len(book.lost))
	}
	var nodePorts [len(Families)]int
	for i := range want {
		checkInvariants(h.T, &want[i])
		if want[i].Kind == KindNodePort {
			nodePorts[want[i].Match.Family]++
		}
	}
	for _, f := range Families {
		if got := h.m.NodePortCount(f); got != nodePorts[f] {
			h.Errorf("%d node ports of %s, want %d", got, f, nodePorts[f])
		}
	}
	h.checkPools()
	checkGathered(h.T, h.m)
	checkNothing(h.T, h.m.Changes())
}

// checkPools checks that every frontend leads to the pool of one that is there.
func (h *history) checkPools() {
	for _, f := range h.programmed {
		owner, ok := h.programmed[f.Pool.Key]
		if !ok || !owner.OwnsPool() || owner.Service != f.Service {
			h.Errorf("%s: no pool at %s", f.Match, f.Pool.Key)
			continue
		}
	}
}

// apply does what the changes say, and checks that each is one.
func (h *history) apply(c Changes) {
	if !slices.IsSortedFunc(c.Set, compareFrontends) || !slices.IsSortedFunc(c.Gone, Match.Compare) {
		h.Errorf("not sorted: %+v", c)
	}
	for _, m := range c.Gone {
		if _, ok := h.programmed[m]; !ok {
			h.Errorf("%s is gone, and never was", m)
		}
		delete(h.programmed, m)
	}
	for _, f := range c.Set {
		if old, ok := h.programmed[f.Match]; ok && old.equal(&f) {
			h.Errorf("%s is set to what it is", f.Match)
		}
		h.programmed[f.Match] = f
		h.handedOut = append(h.handedOut, handedOut{f, cloned(f)})
	}
	h.applyHealthChecks(c.HealthChecks)
}

func (h *history) applyHealthChecks(changed []HealthCheck) {
	if !isSortedSet(changed, func(a, b HealthCheck) int { return a.Service.Compare(b.Service) }) {
		h.Errorf("not sorted: %+v", changed)
	}
	for _, c := range changed {
		if h.healthChecks[c.Service] == c {
			h.Errorf("%v is set to what it is", c)
		}
		h.healthChecks[c.Service] = c
		if c.Port == 0 {
			delete(h.healthChecks, c.Service)
		}
	}
}

// checkConflicts compares what was reported with the lost claims that were not
// lost the last time, to whomever.
func (h *history) checkConflicts(got []Conflict, lost map[Conflict]struct{}) {
	was, fresh := map[lostClaim]bool{}, 0
	for c := range h.conflicts {
		was[lostClaim{c.Match, c.Loser}] = true
	}
	for c := range lost {
		if !was[lostClaim{c.Match, c.Loser}] {
			fresh++
		}
	}
	for _, c := range got {
		if _, isLost := lost[c]; !isLost || was[lostClaim{c.Match, c.Loser}] {
			h.Errorf("%v: is lost %v, was lost %v", c, isLost, was[lostClaim{c.Match, c.Loser}])
		}
	}
	if len(got) != fresh {
		h.Errorf("%d conflicts are new, reported are\n%s", fresh, lines(got))
	}
	for _, c := range h.m.Conflicts() {
		if _, isLost := lost[c]; !isLost {
			h.Errorf("%v is listed as lost", c)
		}
	}
	h.conflicts = lost
}

// checkInvariants checks what holds for every frontend.
func checkInvariants(t *testing.T, f *Frontend) {
	p := f.Pool
	if (f.Verdict == VerdictBalance) != (len(serving(f)) > 0) {
		t.Errorf("%s: verdict %d with endpoints %v", f.Match, f.Verdict, serving(f))
	}
	if f.Served() != (len(p.Cluster) > 0 && (f.Kind != KindClusterIP || f.Policy == PolicyCluster) || len(serving(f)) > 0) {
		t.Errorf("%s: served %v with %+v", f.Match, f.Served(), *p)
	}
	if f.OwnsPool() != (f.Kind == KindClusterIP) {
		t.Errorf("%s: a %s that owns %s", f.Match, f.Kind, p.Key)
	}
	for _, list := range [][]netip.AddrPort{p.Cluster, p.Local, p.FlowEndpoints} {
		if !isSortedSet(list, netip.AddrPort.Compare) {
			t.Errorf("%s: endpoints %v", f.Match, list)
		}
		for _, e := range list {
			if FamilyOf(e.Addr()) != f.Match.Family {
				t.Errorf("%s: endpoint %s", f.Match, e)
			}
		}
	}
	if !isSortedSet(p.Hairpin, netip.Addr.Compare) {
		t.Errorf("%s: hairpin %v", f.Match, p.Hairpin)
	}
	if len(f.Sources) > 0 && !f.Restricted || f.Restricted && f.Kind != KindLoadBalancerIP {
		t.Errorf("%s: a %s restricted %v to %v", f.Match, f.Kind, f.Restricted, f.Sources)
	}
}

// checkFromScratch gives a new map the objects there are, in any order, and
// expects the same of it.
func (h *history) checkFromScratch() {
	fresh := NewServiceMap(h.now.options, h.now.node)
	fresh.minCachedSlices = math.MaxInt
	var events []func()
	for _, name := range slices.SortedFunc(maps.Keys(h.now.services), ServiceName.Compare) {
		events = append(events, func() { fresh.SetService(h.now.services[name]) })
	}
	for _, name := range slices.SortedFunc(maps.Keys(h.now.slices), compareSliceNames) {
		events = append(events, func() { fresh.SetSlice(h.now.slices[name]) })
	}
	events = append(events, func() { fresh.SetNodeAddrs(h.now.nodeAddrs) })
	random := rand.New(rand.NewPCG(uint64(len(h.handedOut)), 0))
	for _, i := range random.Perm(len(events)) {
		events[i]()
		if random.IntN(4) == 0 {
			fresh.Changes()
		}
	}
	fresh.Changes()
	checkExactly(h.T, h.m.Frontends(), fresh.Frontends())
	if h.m.ConflictCount() != fresh.ConflictCount() || h.m.NoLocalEndpoints() != fresh.NoLocalEndpoints() {
		h.Errorf("%d conflicts and %v, from scratch %d and %v",
			h.m.ConflictCount(), h.m.NoLocalEndpoints(), fresh.ConflictCount(), fresh.NoLocalEndpoints())
	}
}

// checkHandedOut checks that nothing later has changed what was handed out.
func (h *history) checkHandedOut() {
	for _, out := range h.handedOut {
		checkExactly(h.T, []Frontend{out.frontend}, []Frontend{out.copy})
	}
}

// forgetAll deletes every object and expects an empty map.
func (h *history) forgetAll() {
	for name := range h.now.slices {
		h.m.DeleteSlice(name)
	}
	for name := range h.now.services {
		h.m.DeleteService(name)
	}
	clear(h.now.slices)
	clear(h.now.services)
	h.check()
	checkEmpty(h.T, h.m)
}

func compareSliceNames(a, b EndpointSliceName) int { return strings.Compare(a.String(), b.String()) }

func compareFrontends(a, b Frontend) int { return a.Match.Compare(b.Match) }

// cloned is the frontend with slices and a pool of its own.
func cloned(f Frontend) Frontend {
	p := *f.Pool
	p.Cluster, p.Local, p.FlowEndpoints = slices.Clone(p.Cluster), slices.Clone(p.Local), slices.Clone(p.FlowEndpoints)
	p.Hairpin = slices.Clone(p.Hairpin)
	f.Sources, f.Pool = slices.Clone(f.Sources), &p
	return f
}

// isSortedSet reports whether values rise from each to the next.
func isSortedSet[T any](values []T, compare func(a, b T) int) bool {
	for i := 1; i < len(values); i++ {
		if compare(values[i-1], values[i]) >= 0 {
			return false
		}
	}
	return true
}
