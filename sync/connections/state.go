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

// series is what a Service port has had.
type series struct {
	port      Port
	number    uint16
	frontends int // that it has; without any, the series ends
	total     uint64
	endpoints map[netip.AddrPort]uint64
	pool      *model.Pool // the latest
}

// state is what is known of Services, and of what they had.
type state struct {
	frontends map[model.Match]*series
	nodeAddrs []netip.Addr // sorted
	series    map[Port]*series
	last      [len(model.Families)]map[pair]uint64 // as of the last reading
	counters  [len(model.Families)]int
	moves     moves
	peaks     [2]int // of frontends and series
}

func newState() state {
	s := state{frontends: map[model.Match]*series{}, series: map[Port]*series{}, moves: newMoves()}
	for f := range s.last {
		s.last[f] = map[pair]uint64{}
	}
	return s
}

// take brings the state up to date, and takes off the sweeps' lists what is not stale
// any more. What is new comes first: a series ends with the last of its frontends.
func (s *state) take(t sync.Taken, sweeps []sweep) {
	for i := range t.Set {
		s.set(&t.Set[i], &sweeps[t.Set[i].Match.Family])
	}
	if t.Whole {
		s.keep(t.Set)
	}
	for _, m := range t.Gone {
		s.remove(m)
	}
	s.frontends, s.series = model.Shrink(s.frontends, &s.peaks[0]), model.Shrink(s.series, &s.peaks[1])
	if !slices.Equal(s.nodeAddrs, t.NodeAddrs) {
		s.nodeAddrs = t.NodeAddrs
		for i := range sweeps {
			clear(sweeps[i].strange)
		}
	}
}

// keep removes what is not among all there is.
func (s *state) keep(all []model.Frontend) {
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
func (s *state) set(f *model.Frontend, w *sweep) {
	port := Port{f.Service, f.Match.Family}
	before, one := s.frontends[f.Match], s.series[port]
	if one == nil {
		one = &series{port: port, pool: f.Pool}
		s.series[port] = one
	}
	if one != before {
		w.unstrange(f.Match)
		s.remove(f.Match)
		s.moves.to(f.Match, port)
		s.frontends[f.Match] = one
		one.frontends++
	}
	if f.Owner() { // to others it does not matter which endpoints there are
		one.number, one.pool = f.Match.Port, f.Pool
		w.serves(one)
	}
}

// remove notes that a frontend is gone.
func (s *state) remove(m model.Match) {
	one := s.frontends[m]
	if one == nil {
		return
	}
	delete(s.frontends, m)
	s.moves.from(m, one.port)
	if one.frontends--; one.frontends == 0 {
		delete(s.series, one.port)
	}
}

// asked is the series of the Service port that has an address and port; nil if none
// has.
func (s *state) asked(m model.Match) *series { return s.frontends[s.meets(m)] }

// meets is the match of the frontend that has an address and port: the same, or that
// of a node port.
func (s *state) meets(m model.Match) model.Match {
	if s.frontends[m] != nil {
		return m
	}
	if _, ours := slices.BinarySearchFunc(s.nodeAddrs, m.Addr, netip.Addr.Compare); ours {
		m.Addr = netip.Addr{}
	}
	return m
}

// serves reports whether connections may go to an endpoint now.
func (one *series) serves(e netip.AddrPort) bool {
	for _, list := range [...][]netip.AddrPort{one.pool.Cluster, one.pool.Local} {
		if _, found := slices.BinarySearchFunc(list, e, netip.AddrPort.Compare); found {
			return true
		}
	}
	return false
}

// add adds what has come since the last reading. A count that has fallen began anew.
func (s *state) add(f model.Family, list []nft.Counted) {
	s.counters[f] = len(list)
	for i := range list {
		c := &list[i]
		one := s.asked(c.Asked)
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

// ports are the sums as they are now.
func (s *state) ports() []PortTotal {
	out := make([]PortTotal, 0, len(s.series))
	for port, one := range s.series {
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
