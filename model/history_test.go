package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// history is events as bytes tell them, a [ServiceMap] that lives through them,
// and what there should be in it.
type history struct {
	*testing.T
	bytes []byte // what is still to come
	m     *ServiceMap
	now   cluster // after all events
	// programmed and conflicts are what Changes has said until now, summed up.
	programmed map[Match]Frontend
	conflicts  map[Conflict]struct{}
	handedOut  []handedOut
}

// handedOut is a frontend of Changes and what it was then.
type handedOut struct{ frontend, copy Frontend }

// TestHistories lives through random ones.
func TestHistories(t *testing.T) {
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 0))
		bytes := make([]byte, random.IntN(1500))
		for i := range bytes {
			bytes[i] = byte(random.Uint32())
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { liveThrough(t, bytes) })
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if len(bytes) > 300 {
			t.Skip("long histories are for TestHistories: to minimize one takes its square in time")
		}
		liveThrough(t, bytes)
	})
}

// liveThrough makes a history of the bytes and checks everything that must hold
// whatever has happened.
func liveThrough(t *testing.T, bytes []byte) {
	h := &history{
		T: t, bytes: bytes,
		now:        cluster{node: thisNode, services: map[ServiceName]Service{}, slices: map[SliceName]Slice{}},
		programmed: map[Match]Frontend{},
	}
	h.now.options = Options{MasqueradeAll: h.yes(), DetectsPods: [...]bool{h.yes(), h.yes()}}
	h.m = NewServiceMap(h.now.options, h.now.node)
	for len(h.bytes) > 0 {
		h.event()
	}
	h.check()
	h.checkFromScratch()
	h.checkHandedOut()
	h.forgetAll()
}

// choose takes the next byte for a number below n.
func (h *history) choose(n int) int {
	if len(h.bytes) == 0 {
		return 0
	}
	b := h.bytes[0]
	h.bytes = h.bytes[1:]
	return int(b) % n
}

func (h *history) yes() bool { return h.choose(2) == 1 }

// event is the next thing that happens.
func (h *history) event() {
	switch h.choose(8) {
	case 0, 1:
		s := h.service()
		h.now.services[s.Name] = s
		h.m.SetService(s)
	case 2:
		name := h.serviceName()
		delete(h.now.services, name)
		h.m.DeleteService(name)
	case 3, 4:
		s := h.slice()
		h.now.slices[s.Name] = s
		h.m.SetSlice(s)
	case 5:
		name := h.sliceName()
		delete(h.now.slices, name)
		h.m.DeleteSlice(name)
	case 6:
		h.now.node = Node{
			Name: []string{here, there, ""}[h.choose(3)],
			Zone: []string{zoneA, zoneB, ""}[h.choose(3)],
		}
		h.m.SetNode(h.now.node)
	case 7:
		h.check()
	}
}

func (h *history) serviceName() ServiceName {
	return ServiceName{[]string{"a", "b"}[h.choose(2)], []string{"x", "y"}[h.choose(2)]}
}

func (h *history) sliceName() SliceName {
	return SliceName{"a", []string{"p", "q", "r", "s", "t"}[h.choose(5)]}
}

// service is one that may claim what others claim, and anything twice.
func (h *history) service() Service {
	s := Service{Name: h.serviceName(), Created: int64(h.choose(3)), InternalPolicy: TrafficPolicy(h.choose(2))}
	for range h.choose(4) {
		s.ClusterIPs = append(s.ClusterIPs, clusterIP(Family(h.choose(2)), h.choose(2)))
	}
	for range h.choose(4) {
		s.Ports = append(s.Ports, [...]ServicePort{
			{Name: "http", Protocol: TCP, Port: 80},
			{Name: "alias", Protocol: TCP, Port: 80},
			{Name: "dns", Protocol: UDP, Port: 53},
			{Protocol: SCTP, Port: 80},
		}[h.choose(4)])
	}
	return s
}

// slice is one whose endpoints may be in others too.
func (h *history) slice() Slice {
	s := Slice{Name: h.sliceName(), Service: h.serviceName(), Family: Family(h.choose(2))}
	for range h.choose(4) {
		s.Ports = append(s.Ports, [...]SlicePort{
			{"http", TCP, 8080}, {"http", TCP, 8081}, {"alias", TCP, 8080}, {"dns", UDP, 53}, {"", SCTP, 8080},
		}[h.choose(5)])
	}
	for range h.choose(6) {
		conditions := h.choose(8)
		s.Endpoints = append(s.Endpoints, Endpoint{
			Addr:  podIP(s.Family, h.choose(6)),
			Ready: conditions&1 == 0, Serving: conditions&2 == 0, Terminating: conditions&4 > 0,
			Node:      []string{here, there, ""}[h.choose(3)],
			ZoneHints: [...]NameSet{zoneA, zoneB, NameSetOf(zoneB, zoneA), ""}[h.choose(4)],
			NodeHints: [...]NameSet{here, there, NameSetOf(there, here), ""}[h.choose(4)],
		})
	}
	return s
}

// check asks for the changes and holds them against the book.
func (h *history) check() {
	h.Helper()
	got := h.m.Changes()
	h.apply(got)

	held, lost := h.now.byTheBook()
	want := slices.SortedFunc(maps.Values(held), compareFrontends)
	checkFrontends(h.T, slices.SortedFunc(maps.Values(h.programmed), compareFrontends), want)
	checkFrontends(h.T, h.m.Frontends(), want)
	if h.m.Len() != len(h.now.services) {
		h.Errorf("%d Services, want %d", h.m.Len(), len(h.now.services))
	}
	h.checkConflicts(got.Conflicts, lost)
	for i := range want {
		checkInvariants(h.T, &want[i])
	}
	checkNothing(h.T, h.m.Changes())
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
}

// checkConflicts compares what was reported with the lost claims that were not
// there the last time.
func (h *history) checkConflicts(got []Conflict, lost map[Conflict]struct{}) {
	for _, c := range got {
		_, isLost := lost[c]
		_, wasLost := h.conflicts[c]
		if !isLost || wasLost {
			h.Errorf("%v: is lost %v, was lost %v", c, isLost, wasLost)
		}
	}
	fresh := 0
	for c := range lost {
		if _, wasLost := h.conflicts[c]; !wasLost {
			fresh++
		}
	}
	if len(got) != fresh {
		h.Errorf("%d conflicts are new, reported are\n%s", fresh, lines(got))
	}
	h.conflicts = lost
}

// checkInvariants checks what holds for every frontend.
func checkInvariants(t *testing.T, f *Frontend) {
	if (f.Verdict == Balance) != (len(f.Endpoints) > 0) {
		t.Errorf("%s: verdict %d with endpoints %v", f.Match, f.Verdict, f.Endpoints)
	}
	if !isSortedSet(f.Endpoints, netip.AddrPort.Compare) || !isSortedSet(f.Hairpin, netip.Addr.Compare) {
		t.Errorf("%s: endpoints %v, hairpin %v", f.Match, f.Endpoints, f.Hairpin)
	}
	if len(f.Hairpin) > 0 && f.Verdict != Balance {
		t.Errorf("%s: hairpin %v without endpoints", f.Match, f.Hairpin)
	}
	for _, e := range f.Endpoints {
		if FamilyOf(e.Addr()) != f.Match.Family {
			t.Errorf("%s: endpoint %s", f.Match, e)
		}
	}
}

// checkFromScratch gives a new map the objects there are, in any order, and
// expects the same of it.
func (h *history) checkFromScratch() {
	fresh := NewServiceMap(h.now.options, h.now.node)
	var events []func()
	for _, name := range slices.SortedFunc(maps.Keys(h.now.services), ServiceName.Compare) {
		events = append(events, func() { fresh.SetService(h.now.services[name]) })
	}
	for _, name := range slices.SortedFunc(maps.Keys(h.now.slices), compareSliceNames) {
		events = append(events, func() { fresh.SetSlice(h.now.slices[name]) })
	}
	random := rand.New(rand.NewPCG(uint64(len(h.handedOut)), 0))
	for _, i := range random.Perm(len(events)) {
		events[i]()
		if random.IntN(4) == 0 {
			fresh.Changes()
		}
	}
	fresh.Changes()
	checkFrontends(h.T, h.m.Frontends(), fresh.Frontends())
}

// checkHandedOut checks that nothing later has changed what was handed out.
func (h *history) checkHandedOut() {
	for _, out := range h.handedOut {
		if !out.frontend.equal(&out.copy) {
			h.Errorf("was\n\t%+v\nis\n\t%+v", out.copy, out.frontend)
		}
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

func compareSliceNames(a, b SliceName) int { return strings.Compare(a.String(), b.String()) }

func compareFrontends(a, b Frontend) int { return a.Match.Compare(b.Match) }

// cloned is the frontend with slices of its own.
func cloned(f Frontend) Frontend {
	f.Endpoints, f.Hairpin = slices.Clone(f.Endpoints), slices.Clone(f.Hairpin)
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
