package connections

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// Port is a Service port in one family.
type Port struct {
	model.ServicePortName
	Family model.Family
}

// PortTotal is how many connections a Service port had, whichever of its addresses
// they asked for.
type PortTotal struct {
	Port
	// Number is the port's number at the ClusterIP.
	Number      uint16
	Connections uint64
	// Endpoints are those that serve now, sorted, and had connections.
	Endpoints []EndpointTotal
}

// EndpointTotal is how many connections an endpoint had as one of a Service port.
type EndpointTotal struct {
	Endpoint    netip.AddrPort
	Connections uint64
}

// pair is what is told apart.
type pair struct {
	asked    model.Match
	endpoint netip.AddrPort
}

// ports is what a Service port has had.
type portCounts struct {
	port      Port
	number    uint16
	frontends int // that it has; without any, the series ends
	total     uint64
	endpoints map[netip.AddrPort]uint64
	pool      *model.Pool // the latest
}

// tracker is what is known of Services, and of what they had.
type tracker struct {
	frontends map[model.Match]*portCounts
	nodeAddrs []netip.Addr // sorted
	ports     map[Port]*portCounts
	last      [len(model.Families)]map[pair]uint64 // as of the last reading
	counters  [len(model.Families)]int
	moves     moveTracker
	peaks     [2]int // of frontends and series
}

func newTracker() tracker {
	s := tracker{frontends: map[model.Match]*portCounts{}, ports: map[Port]*portCounts{}, moves: newMoveTracker()}
	for f := range s.last {
		s.last[f] = map[pair]uint64{}
	}
	return s
}

// apply brings the state up to date, and takes off the sweeps' lists what is not stale
// any more. What is new comes first: a series ends with the last of its frontends.
func (s *tracker) apply(t sync.Committed, sweeps []staleSet) {
	for i := range t.Set {
		s.set(&t.Set[i], &sweeps[t.Set[i].Match.Family])
	}
	if t.Full {
		s.removeOthers(t.Set)
	}
	for _, m := range t.Gone {
		s.remove(m)
	}
	s.frontends, s.ports = model.Shrink(s.frontends, &s.peaks[0]), model.Shrink(s.ports, &s.peaks[1])
	if !slices.Equal(s.nodeAddrs, t.NodeAddrs) {
		s.nodeAddrs = t.NodeAddrs
		for i := range sweeps {
			clear(sweeps[i].frontends)
		}
	}
}

// removeOthers removes what is not among all there is.
func (s *tracker) removeOthers(all []model.Frontend) {
	still := make(map[model.Match]struct{}, len(all))
	for i := range all {
		still[all[i].Match] = struct{}{}
	}
	for m := range s.frontends {
		if _, stays := still[m]; !stays {
			s.remove(m)
		}
	}
}

// set notes what a frontend is now.
func (s *tracker) set(f *model.Frontend, w *staleSet) {
	port := Port{f.Service, f.Match.Family}
	before, one := s.frontends[f.Match], s.ports[port]
	if one == nil {
		one = &portCounts{port: port, pool: f.Pool}
		s.ports[port] = one
	}
	if one != before {
		w.frontendServed(f.Match)
		s.remove(f.Match)
		s.moves.assigned(f.Match, port)
		s.frontends[f.Match] = one
		one.frontends++
	}
	if f.OwnsPool() { // to others it does not matter which endpoints there are
		one.number, one.pool = f.Match.Port, f.Pool
		w.dropServing(one)
	}
}

// remove notes that a frontend is gone.
func (s *tracker) remove(m model.Match) {
	one := s.frontends[m]
	if one == nil {
		return
	}
	delete(s.frontends, m)
	s.moves.released(m, one.port)
	if one.frontends--; one.frontends == 0 {
		delete(s.ports, one.port)
	}
}

// portOf is the series of the Service port that has an address and port; nil if none
// has.
func (s *tracker) portOf(m model.Match) *portCounts { return s.frontends[s.matchOf(m)] }

// matchOf is the match of the frontend that has an address and port: the same, or that
// of a node port.
func (s *tracker) matchOf(m model.Match) model.Match {
	if s.frontends[m] != nil {
		return m
	}
	if _, ours := slices.BinarySearchFunc(s.nodeAddrs, m.Addr, netip.Addr.Compare); ours {
		m.Addr = netip.Addr{}
	}
	return m
}

// dropServing reports whether connections may go to an endpoint now.
func (one *portCounts) serves(e netip.AddrPort) bool {
	for _, list := range [...][]netip.AddrPort{one.pool.Cluster, one.pool.Local} {
		if _, found := slices.BinarySearchFunc(list, e, netip.AddrPort.Compare); found {
			return true
		}
	}
	return false
}

// add adds what has come since the last reading. A count that has fallen began anew.
func (s *tracker) add(f model.Family, list []nft.ConnectionCount) {
	s.counters[f] = len(list)
	for i := range list {
		c := &list[i]
		one := s.portOf(c.Asked)
		if one == nil {
			continue
		}
		key := pair{c.Asked, c.Endpoint}
		more := c.Connections
		if before := s.last[f][key]; before <= more {
			more -= before
		}
		s.last[f][key] = c.Connections
		one.total += more
		if !c.Endpoint.IsValid() {
			continue
		}
		if one.endpoints == nil {
			one.endpoints = map[netip.AddrPort]uint64{}
		}
		one.endpoints[c.Endpoint] += more
	}
}

// totals are the sums as they are now.
func (s *tracker) totals() []PortTotal {
	out := make([]PortTotal, 0, len(s.ports))
	for port, one := range s.ports {
		if one.total == 0 {
			continue
		}
		t := PortTotal{Port: port, Number: one.number, Connections: one.total}
		for e, n := range one.endpoints {
			if one.serves(e) {
				t.Endpoints = append(t.Endpoints, EndpointTotal{e, n})
			}
		}
		slices.SortFunc(t.Endpoints, func(a, b EndpointTotal) int { return a.Endpoint.Compare(b.Endpoint) })
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b PortTotal) int { return a.Compare(b.Port) })
	return out
}

// Compare orders by namespace, name, port, protocol and family.
func (p Port) Compare(o Port) int {
	return cmp.Or(
		strings.Compare(p.Namespace, o.Namespace), strings.Compare(p.Name, o.Name),
		strings.Compare(p.ServicePortName.Port, o.ServicePortName.Port),
		cmp.Compare(p.Protocol, o.Protocol), cmp.Compare(p.Family, o.Family),
	)
}
