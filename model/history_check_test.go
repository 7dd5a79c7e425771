package model

import (
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// check applies the changes and compares the result with the oracle.
func (h *history) check() {
	h.Helper()
	got := h.m.Changes()
	h.apply(got)

	expected := h.now.oracle()
	want := slices.SortedFunc(maps.Values(expected.winners), compareFrontends)
	checkExactly(h.T, h.m.Frontends(), want)
	var byService []Frontend
	for name := range h.m.services {
		byService = append(byService, h.m.FrontendsOf(name)...)
	}
	slices.SortFunc(byService, compareFrontends)
	checkExactly(h.T, byService, want)
	programmed := slices.SortedFunc(maps.Values(h.programmed), compareFrontends)
	if !slices.EqualFunc(programmed, want, oracleEqual) {
		h.Errorf("programmed\n%s\nwant\n%s", frontendLines(programmed), frontendLines(want))
	}
	elsewhere := map[Match]ServicePortName{}
	for _, fe := range h.m.Elsewhere() {
		elsewhere[fe.Match] = fe.Service
	}
	if !maps.Equal(elsewhere, expected.elsewhere) {
		h.Errorf("other nodes serve %v, want %v", elsewhere, expected.elsewhere)
	}
	h.checkObjects()
	if h.m.NoLocalEndpoints() != expected.notLocal {
		h.Errorf("not local are %v, want %v", h.m.NoLocalEndpoints(), expected.notLocal)
	}
	if !maps.Equal(h.healthChecks, expected.health) {
		h.Errorf("health checks: got %v, want %v", h.healthChecks, expected.health)
	}
	if h.postponed { // conflicts have been reported that may have ended
		h.postponed, h.conflicts = false, expected.lost
	} else {
		h.checkConflicts(got.Conflicts, expected.lost)
	}
	if all := h.m.Conflicts(); len(all) != len(expected.lost) || slices.ContainsFunc(all, func(c Conflict) bool { _, ok := expected.lost[c]; return !ok }) {
		h.Errorf("conflicts: got %v, want %v", all, expected.lost)
	}
	all := h.m.HealthChecks()
	if len(all) != len(expected.health) || slices.ContainsFunc(all, func(c HealthCheck) bool { return c != expected.health[c.Service] }) {
		h.Errorf("all health checks: got %v, want %v", all, expected.health)
	}
	if !slices.IsSortedFunc(all, func(a, b HealthCheck) int { return a.Service.Compare(b.Service) }) {
		h.Errorf("health checks are not sorted: %v", all)
	}
	if h.m.ConflictCount() != len(expected.lost) {
		h.Errorf("%d conflicts, want %d", h.m.ConflictCount(), len(expected.lost))
	}
	var nodePorts [len(Families)]int
	for i := range want {
		checkServed(h.T, &want[i])
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
	checkCaches(h.T, h.m)
	checkNothing(h.T, h.m.Changes())
}

// checkObjects checks which Services and slices the map has.
func (h *history) checkObjects() {
	all := h.m.Snapshot()
	if len(all) != len(h.now.services) || h.m.Len() != len(h.now.services) {
		h.Errorf("%d Services, %d listed, want %d", h.m.Len(), len(all), len(h.now.services))
	}
	for _, s := range all {
		from := h.now.slicesOf(s.Name)
		slices.SortFunc(from, func(a, b EndpointSlice) int { return compareSliceNames(a.Name, b.Name) })
		now := h.now.services[s.Name]
		if h.m.Service(s.Name) != s.Service || !reflect.DeepEqual(*s.Service, now) || !slices.EqualFunc(s.Slices, from, sameSlice) {
			h.Errorf("got %+v with slices %v, want %+v, %v", *s.Service, s.Slices, now, from)
		}
		h.snapshots = append(h.snapshots, [2][]EndpointSlice{s.Slices, from})
	}
}

// sameSlice does not tell empty lists from nil: of two slices that differ in that only, the map keeps
// the first one.
func sameSlice(a, b EndpointSlice) bool { return a.equal(&b) }

// checkPools checks that every frontend has the pool of a programmed owner.
func (h *history) checkPools() {
	for _, f := range h.programmed {
		owner, ok := h.programmed[f.Pool.Key]
		if !ok || !owner.IsClusterIP() || owner.Service != f.Service {
			h.Errorf("%s: no pool at %s", f.Match, f.Pool.Key)
			continue
		}
	}
}

// apply applies the changes and checks that each changes something.
func (h *history) apply(c Changes) {
	if !slices.IsSortedFunc(c.Set, compareFrontends) || !slices.IsSortedFunc(c.Removed, Match.Compare) {
		h.Errorf("not sorted: %+v", c)
	}
	for _, m := range c.Removed {
		if _, ok := h.programmed[m]; !ok {
			h.Errorf("%s is removed, but was not programmed", m)
		}
		delete(h.programmed, m)
	}
	for _, f := range c.Set {
		if old, ok := h.programmed[f.Match]; ok && old.equal(&f) {
			h.Errorf("%s is set without a change", f.Match)
		}
		h.programmed[f.Match] = f
		h.returned = append(h.returned, returned{f, cloned(f)})
	}
	h.applyHealthChecks(c.HealthChecks)
}

func (h *history) applyHealthChecks(changed []HealthCheck) {
	if !isSortedSet(changed, func(a, b HealthCheck) int { return a.Service.Compare(b.Service) }) {
		h.Errorf("not sorted: %+v", changed)
	}
	for _, c := range changed {
		if before, known := h.healthChecks[c.Service]; before == c || !known && c.Port == 0 {
			h.Errorf("%v is set without a change", c)
		}
		h.healthChecks[c.Service] = c
		if c.Port == 0 {
			delete(h.healthChecks, c.Service)
		}
	}
}

// checkConflicts compares the reported conflicts with the claims that lose now and did
// not lose at the last check, to any winner.
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
	if len(got) != fresh || !slices.IsSortedFunc(got, h.compareConflicts) {
		h.Errorf("%d conflicts are new, reported are\n%s", fresh, lines(got))
	}
	h.conflicts = lost
}

// compareConflicts orders conflicts by match and, of ClusterIPs, by the age of the loser.
func (h *history) compareConflicts(a, b Conflict) int {
	isClusterIP := func(s Service) bool {
		all := ofFamily(a.Match.Family, s.ClusterIPs)
		return len(all) > 0 && all[0] == a.Match.Addr
	}
	s, o := h.now.services[a.Loser.ServiceName], h.now.services[b.Loser.ServiceName]
	if order := a.Match.Compare(b.Match); order != 0 || !isClusterIP(s) || !isClusterIP(o) {
		return order
	}
	return oracleOlder(s, o)
}

// checkServed checks which frontends count as served.
func checkServed(t *testing.T, f *Frontend) {
	p := f.Pool
	served := len(p.List(f.Policy == PolicyLocal).Endpoints) > 0
	if bypass := f.Kind != KindClusterIP && len(p.Cluster) > 0; f.Served() != (served || bypass) {
		t.Errorf("%s: served %v with %+v", f.Match, f.Served(), *p)
	}
}

// checkFromScratch adds the current objects to a new map in random order and expects
// the same result.
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
	random := rand.New(rand.NewPCG(uint64(len(h.returned)), 0))
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

// checkReturned checks that later events did not change what Changes and Snapshot returned.
func (h *history) checkReturned() {
	for _, out := range h.returned {
		checkExactly(h.T, []Frontend{out.frontend}, []Frontend{out.copy})
	}
	for _, out := range h.snapshots {
		if !slices.EqualFunc(out[0], out[1], sameSlice) {
			h.Errorf("a snapshot changed from %v to %v", out[1], out[0])
		}
	}
}

// deleteAll deletes all objects and expects an empty map.
func (h *history) deleteAll() {
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

// cloned returns a deep copy of the frontend.
func cloned(f Frontend) Frontend {
	p := *f.Pool
	p.Cluster, p.Local, p.FlowEndpoints = slices.Clone(p.Cluster), slices.Clone(p.Local), slices.Clone(p.FlowEndpoints)
	p.Hairpin = slices.Clone(p.Hairpin)
	f.Sources, f.Pool = slices.Clone(f.Sources), &p
	return f
}

// isSortedSet reports whether the values are sorted and without duplicates.
func isSortedSet[T any](values []T, compare func(a, b T) int) bool {
	for i := 1; i < len(values); i++ {
		if compare(values[i-1], values[i]) >= 0 {
			return false
		}
	}
	return true
}
