package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// history is a sequence of events that are decoded from bytes, a [ServiceMap] that
// receives them, and its expected content.
type history struct {
	*testing.T
	bytes []byte // not decoded yet
	size  historySize
	m     *ServiceMap
	now   cluster // after all events
	// programmed, conflicts and healthChecks are the sum of all Changes.
	programmed   map[Match]Frontend
	conflicts    map[Conflict]struct{}
	healthChecks map[ServiceName]HealthCheck
	returned     []returned
	snapshots    [][2][]EndpointSlice // the slices of a Service, and a copy made then
	postponed    bool                 // since the last check
}

// historySize is how many of each a history has at most; endpoints are new ones in a slice.
type historySize struct{ namespaces, slices, pods, endpoints int }

var smallHistory, largeHistory = historySize{2, 5, 6, 6}, historySize{1, 16, 150, 60}

// returned is a frontend that Changes returned, and a copy made then.
type returned struct{ frontend, copy Frontend }

// TestHistories runs random histories.
func TestHistories(t *testing.T) {
	for seed := range fewerIfShort(1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runHistories(t, randomBytes(seed, int(seed*367%1500))) })
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if len(bytes) > 300 {
			t.Skip("long histories are for TestHistories: to minimize one takes quadratic time")
		}
		runHistories(t, bytes)
	})
}

// runHistories runs the history with caches for all Services with slices, for Services
// with at least two, to add and remove caches, and for none.
func runHistories(t *testing.T, bytes []byte) {
	for _, many := range []int{1, 2, math.MaxInt} {
		runHistory(t, bytes, many, smallHistory)
	}
}

// TestLargeHistories runs histories of two Services with many slices, which share addresses,
// differ in ports, and move from one Service to the other.
func TestLargeHistories(t *testing.T) {
	for seed := range fewerIfShort(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			runHistory(t, randomBytes(seed, 20_000), minCachedSlices, largeHistory)
		})
	}
}

func randomBytes(seed uint64, n int) []byte {
	random, bytes := rand.New(rand.NewPCG(seed, 0)), make([]byte, n)
	for i := range bytes {
		bytes[i] = byte(random.Uint32())
	}
	return bytes
}

// runHistory runs a history with caches for Services with so many slices, and checks everything
// that must always hold, and that nothing remains when all objects are deleted.
func runHistory(t *testing.T, bytes []byte, many int, size historySize) {
	h := newHistory(t, bytes, many, size)
	for len(h.bytes) > 0 {
		h.event()
	}
	h.check()
	h.checkFromScratch()
	h.checkReturned()
	h.deleteAll()
}

func newHistory(t *testing.T, bytes []byte, many int, size historySize) *history {
	h := &history{
		T: t, bytes: bytes, size: size,
		now:        cluster{node: thisNode, services: map[ServiceName]Service{}, slices: map[EndpointSliceName]EndpointSlice{}},
		programmed: map[Match]Frontend{}, healthChecks: map[ServiceName]HealthCheck{},
	}
	h.now.options = h.options()
	h.m = NewServiceMap(h.now.options, h.now.node)
	h.m.minCachedSlices = many
	return h
}

// choose decodes the next byte as a number below n.
func (h *history) choose(n int) int {
	if len(h.bytes) == 0 {
		return 0
	}
	b := h.bytes[0]
	h.bytes = h.bytes[1:]
	return int(b) % n
}

func (h *history) yes() bool { return h.choose(2) == 1 }

// event decodes the next event and applies it.
func (h *history) event() {
	switch h.choose(15) {
	case 0, 1:
		h.setService(h.service())
	case 2:
		h.deleteService(h.serviceName())
	case 3, 4:
		h.setSlice(h.slice())
	case 5:
		h.deleteSlice(h.sliceName())
	case 6:
		n := Node{
			Name: []string{here, there, ""}[h.choose(3)],
			Zone: []string{zoneA, zoneB, ""}[h.choose(3)], Labels: h.labels(),
		}
		for _, f := range Families {
			n.Addrs[f] = []netip.Addr{nodeIP(f, 1), {}}[h.choose(2)]
		}
		h.setNode(n)
	case 7:
		h.check()
	case 8:
		h.setOptions(h.options())
	case 9:
		var addrs []netip.Addr
		for range h.choose(3) {
			addrs = append(addrs, h.externalIP())
		}
		h.now.nodeAddrs = addrs
		h.m.SetNodeAddrs(addrs)
	case 10:
		h.postpone([]string{"a", "b", "ab"}[h.choose(3)])
	case 11:
		h.checkUnresponsive()
	case 12:
		h.changeSlice()
	case 13:
		h.checkHoldOver()
	case 14:
		n := h.now.node
		n.Labels = h.labels()
		h.setNode(n)
	}
}

// checkHoldOver checks the result when the hold of all pools is over, and when it begins again.
func (h *history) checkHoldOver() {
	h.check()
	for _, over := range []bool{true, false} {
		h.now.holdOver = over
		for m, f := range h.programmed {
			h.m.SetOverlays([]Overlay{HoldChange{m, f.Pool.UID, over}})
		}
		h.check()
	}
}

// checkUnresponsive checks the result while some pods are unresponsive.
func (h *history) checkUnresponsive() {
	h.check()
	all := h.unresponsive()
	h.now.unresponsive = all
	for key, endpoints := range all {
		h.m.SetOverlays([]Overlay{UnresponsiveEndpoints{key, endpoints}})
	}
	h.check()
	h.now.unresponsive = nil
	for key := range all {
		h.m.SetOverlays([]Overlay{UnresponsiveEndpoints{Key: key}})
	}
}

// unresponsive returns the unresponsive pods for all pools that may exist.
func (h *history) unresponsive() map[Match][]netip.AddrPort {
	pods, all := h.choose(1<<6), map[Match][]netip.AddrPort{}
	for _, f := range Families {
		var endpoints []netip.AddrPort
		for k := range 6 {
			if pods&(1<<k) == 0 {
				continue
			}
			for _, port := range []uint16{53, 8080, 8081} {
				endpoints = append(endpoints, netip.AddrPortFrom(podIP(f, k), port))
			}
		}
		if h.choose(2) == 0 { // not in the order of addresses
			slices.Reverse(endpoints)
		}
		for k := range 2 {
			for _, p := range []ServicePort{{Protocol: TCP, Port: 80}, {Protocol: UDP, Port: 53}, {Protocol: SCTP, Port: 80}} {
				all[Match{clusterIP(f, k), p.Port, f, p.Protocol}] = endpoints
			}
		}
	}
	return all
}

func (h *history) setService(s Service) {
	h.now.services[s.Name] = s
	h.m.SetService(s)
}

func (h *history) deleteService(name ServiceName) {
	delete(h.now.services, name)
	h.m.DeleteService(name)
}

func (h *history) setSlice(s EndpointSlice) {
	h.now.slices[s.Name] = s
	h.m.SetSlice(s)
}

func (h *history) deleteSlice(name EndpointSliceName) {
	delete(h.now.slices, name)
	h.m.DeleteSlice(name)
}

func (h *history) setNode(n Node) {
	h.now.node = n
	h.m.SetNode(n)
}

func (h *history) setOptions(o Options) {
	h.now.options = o
	h.m.SetOptions(o)
}

func (h *history) options() Options {
	o := Options{MasqueradeAll: h.yes(), DetectsPods: [...]bool{h.yes(), h.yes()}, Scheduler: h.scheduler()}
	bits := h.choose(1 << 7)
	o.StrictSourceRanges, o.IgnoreExternalIPs, o.TCPFlowEndpoints = bits&1 > 0, bits&2 > 0, bits&4 > 0
	o.PassiveChecks, o.MaxAvoidedPercent = PassiveChecks(bits>>3&3), [...]int{0, 34, 50, 100}[bits>>5]
	return o
}

func (h *history) labels() NameSet {
	return [...]NameSet{"", NameSetOf("role", "role=edge"), NameSetOf("role", "role=inner", "zone", "zone=a")}[h.choose(3)]
}

// nodes returns a selector; mostly one that selects all.
func (h *history) nodes() (s NodeSelector) {
	for range max(h.choose(6)-3, 0) {
		labels := [...]NameSet{"role", "role=edge", NameSetOf("role=edge", "role=inner"), "zone", ""}[h.choose(5)]
		s = append(s, NodeTerm{labels, h.choose(3) == 0})
	}
	return s
}

func (h *history) scheduler() Scheduler {
	return Scheduler(h.choose(int(SchedulerLeastConnections) + 1))
}

func (h *history) serviceName() ServiceName {
	return ServiceName{[]string{"a", "b"}[h.choose(h.size.namespaces)], []string{"x", "y"}[h.choose(2)]}
}

func (h *history) sliceName() EndpointSliceName {
	return EndpointSliceName{"a", string(rune('a' + h.choose(h.size.slices)))}
}

// service returns a Service that may claim the same addresses as others, or one twice.
func (h *history) service() Service {
	s := Service{Name: h.serviceName(), Created: int64(h.choose(3)), InternalPolicy: TrafficPolicy(h.choose(2))}
	for range h.choose(4) {
		s.ClusterIPs = append(s.ClusterIPs, clusterIP(Family(h.choose(2)), h.choose(2)))
	}
	ports := []ServicePort{
		{Name: "http", Protocol: TCP, Port: 80},
		{Name: "alias", Protocol: TCP, Port: 80},
		{Name: "dns", Protocol: UDP, Port: 53},
		{Protocol: SCTP, Port: 80},
	}
	for range h.choose(len(ports)) {
		i := h.choose(len(ports))
		s.Ports = append(s.Ports, ports[i])
		ports = slices.Delete(ports, i, i+1) // a name occurs once
	}
	bits := h.choose(1 << 5)
	s.PassiveChecks, s.Hold = PassiveChecks(bits>>1&3), time.Duration(bits>>3&1)*time.Minute
	s.RetryRefused = bits>>4 > 0
	s.ScaleToZero = bits == 0
	if bits&1 > 0 {
		h.addExternal(&s)
	}
	return s
}

// addExternal adds external addresses, which may belong to other Services, even as their
// ClusterIPs.
func (h *history) addExternal(s *Service) {
	for i := range s.Ports {
		s.Ports[i].NodePort = [...]uint16{0, 30080, 30081, 80, 53}[h.choose(5)]
	}
	for range h.choose(3) {
		s.LoadBalancerIPs = append(s.LoadBalancerIPs, h.externalIP())
	}
	for range h.choose(3) {
		s.ExternalIPs = append(s.ExternalIPs, h.externalIP())
	}
	s.ExternalPolicy = TrafficPolicy(h.choose(2))
	s.SourceRanges, s.RangesForAll = h.ranges(4), h.yes()
	s.DeniedRanges = h.ranges(3)
	s.Affinity = time.Duration(h.choose(3)) * 50 * time.Minute
	s.Scheduler, s.Nodes = h.scheduler(), h.nodes()
	s.HealthCheckNodePort = [...]uint16{0, 31000, 31001}[h.choose(3)]
}

// ranges returns fewer than n source ranges.
func (h *history) ranges(n int) (out []netip.Prefix) {
	for range h.choose(n) {
		f := Family(h.choose(2))
		out = append(out, [...]netip.Prefix{
			netip.PrefixFrom(nodeIP(f, 128), nodeIP(f, 0).BitLen()-7),
			netip.PrefixFrom(nodeIP(f, 3), nodeIP(f, 0).BitLen()-8),
			netip.PrefixFrom(podIP(f, 1), 16),
			netip.PrefixFrom(podIP(f, 0), 0),
		}[h.choose(4)])
	}
	return out
}

// externalIP returns an external address, which may be a ClusterIP.
func (h *history) externalIP() netip.Addr {
	f, k := Family(h.choose(2)), h.choose(4)
	if k < 2 {
		return clusterIP(f, k)
	}
	return externalIP(f, k)
}

// slice returns a slice whose endpoints may also be in others.
func (h *history) slice() EndpointSlice {
	s := EndpointSlice{Name: h.sliceName(), Service: h.serviceName(), Family: Family(h.choose(2))}
	h.weigh(&s)
	for range h.choose(4) {
		s.Ports = append(s.Ports, [...]EndpointPort{
			{"http", TCP, 8080}, {"http", TCP, 8081}, {"alias", TCP, 8080}, {"dns", UDP, 53}, {"dns", TCP, 53}, {"", SCTP, 8080},
		}[h.choose(6)])
	}
	if other := h.now.slices[h.sliceName()]; other.Family == s.Family {
		s.Endpoints = slices.Clone(other.Endpoints)
	}
	for range h.choose(h.size.endpoints) {
		s.Endpoints = append(s.Endpoints, h.endpoint(s.Family))
	}
	return s
}

func (h *history) weigh(s *EndpointSlice) {
	s.Weight, s.Drained = [...]uint16{0, 0, 1, 2, 6, math.MaxUint16}[h.choose(6)], h.choose(4) == 1
	if s.Priority = 0; h.choose(8) == 0 {
		s.Priority = [...]uint8{1, MaxPriority}[h.choose(2)]
	}
}

func (h *history) endpoint(f Family) Endpoint {
	conditions := h.choose(8)
	return Endpoint{
		Addr:  podIP(f, h.choose(h.size.pods)),
		Ready: conditions&1 == 0, Serving: conditions&2 == 0, Terminating: conditions&4 > 0,
		Node:      []string{here, there, ""}[h.choose(3)],
		ZoneHints: [...]NameSet{zoneA, zoneB, NameSetOf(zoneB, zoneA), ""}[h.choose(4)],
		NodeHints: [...]NameSet{here, there, NameSetOf(there, here), ""}[h.choose(4)],
	}
}

// changeSlice adds an endpoint to an existing slice, or deletes or replaces one, or changes its weight.
func (h *history) changeSlice() {
	s, exists := h.now.slices[h.sliceName()]
	if !exists || len(s.Endpoints) == 0 {
		return
	}
	if h.choose(4) == 1 {
		h.weigh(&s)
		h.setSlice(s)
		return
	}
	k := h.choose(len(s.Endpoints))
	s.Endpoints = slices.Delete(slices.Clone(s.Endpoints), k, k+h.choose(2))
	if h.yes() {
		s.Endpoints = slices.Insert(s.Endpoints, k, h.endpoint(s.Family))
	}
	h.setSlice(s)
}
