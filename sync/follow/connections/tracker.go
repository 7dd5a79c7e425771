package connections

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
)

// A Port is a Service port in one family.
type Port struct {
	model.ServicePortName
	Family model.Family
}

// A PortTotal is the number of connections to a Service port on all its frontends.
type PortTotal struct {
	Port
	Number      uint16 // of the port at the ClusterIP
	Connections uint64
	// Refusals are of endpoints, and Retried how many of these clients did not see, where the Service
	// retries.
	Refusals, Retried uint64
	// Endpoints are those that serve now and had connections, sorted.
	Endpoints []EndpointTotal
}

// An EndpointTotal is the number of connections to an endpoint of a Service port.
type EndpointTotal struct {
	Endpoint    netip.AddrPort
	Connections uint64
}

// A pair is a key of one of the kernel's counters.
type pair struct {
	destination model.Match
	endpoint    netip.AddrPort
}

type portCounts struct {
	port      Port
	number    uint16
	frontends int // how many it has; the last one takes the counts with it
	total     uint64
	endpoints map[netip.AddrPort]uint64
	pool      *model.Pool // the latest
}

// A tracker knows the frontends and endpoints of Services and their connections.
type tracker struct {
	frontends map[model.Match]*portCounts
	nodeAddrs model.NodeAddrs
	ports     map[Port]*portCounts
	last      [len(model.Families)]map[pair]uint64 // as of the last read
	counters  [len(model.Families)]int
	refusals  [len(model.Families)][]nft.RefusalCount // as of the last read
	peaks     [2]int                                  // of frontends and ports
	// left are the frontends that a Service port has lost since the last read, whose elements are
	// still its own. Reading is urgent once another Service port has one.
	left   [len(model.Families)]map[model.Match]Port
	urgent bool
}

func newTracker() tracker {
	s := tracker{frontends: map[model.Match]*portCounts{}, ports: map[Port]*portCounts{}}
	for f := range s.last {
		s.last[f], s.left[f] = map[pair]uint64{}, map[model.Match]Port{}
	}
	return s
}

// apply follows a commit, and removes from the stale sets the pairs that are in use
// again.
func (s *tracker) apply(t sync.Committed, stale []staleSet) {
	if t.Full && len(s.frontends) == 0 {
		s.frontends, s.ports = make(map[model.Match]*portCounts, len(t.Set)), make(map[Port]*portCounts, len(t.Set))
	}
	follow.Update(s.frontends, t, func(f *model.Frontend, before *portCounts, _ bool) (*portCounts, bool) {
		return s.set(f, before, &stale[f.Match.Family]), true
	}, s.remove)
	s.frontends, s.ports = model.Shrink(s.frontends, &s.peaks[0]), model.Shrink(s.ports, &s.peaks[1])
	if !slices.Equal(s.nodeAddrs, t.NodeAddrs) {
		s.nodeAddrs = t.NodeAddrs
		for i := range stale {
			clear(stale[i].destinations)
		}
	}
}

func (s *tracker) set(f *model.Frontend, before *portCounts, w *staleSet) *portCounts {
	port := Port{f.Service, f.Match.Family}
	counts := s.ports[port]
	if counts == nil {
		counts = &portCounts{port: port, pool: f.Pool}
		s.ports[port] = counts
	}
	if counts != before {
		w.addFrontend(f.Match)
		if before != nil {
			s.remove(f.Match, before)
		}
		if was, left := s.left[port.Family][f.Match]; was == port {
			delete(s.left[port.Family], f.Match)
		} else if left {
			s.left[port.Family][f.Match], s.urgent = Port{}, true
		}
		counts.frontends++
	}
	if f.IsClusterIP() { // the others have the same endpoints
		counts.number, counts.pool = f.Match.Port, f.Pool
		w.removeServing(counts)
	}
	return counts
}

// remove removes a frontend from its Service port, whose counts end with the last one.
func (s *tracker) remove(m model.Match, counts *portCounts) {
	if _, left := s.left[m.Family][m]; !left {
		s.left[m.Family][m] = counts.port
	}
	if counts.frontends--; counts.frontends == 0 {
		delete(s.ports, counts.port)
	}
}

// portOf returns the counts of the Service port that has a destination, or nil.
func (s *tracker) portOf(m model.Match) *portCounts {
	_, counts, _ := model.Find(s.frontends, s.nodeAddrs, m)
	return counts
}

func (c *portCounts) serves(e netip.AddrPort) bool {
	for _, list := range [...][]netip.AddrPort{c.pool.Cluster, c.pool.Local} {
		if _, found := slices.BinarySearchFunc(list, e, netip.AddrPort.Compare); found {
			return true
		}
	}
	return false
}

// forgetEndpoints forgets those that neither serve nor have a counter in the kernel that is stale.
func (s *tracker) forgetEndpoints(f model.Family, stale map[*portCounts]sets.Set[netip.AddrPort]) {
	for port, counts := range s.ports {
		if port.Family == f {
			maps.DeleteFunc(counts.endpoints, func(e netip.AddrPort, _ uint64) bool {
				return !counts.serves(e) && !stale[counts].Has(e)
			})
		}
	}
}

// add adds the growth since the last read. A count that decreased started from zero.
func (s *tracker) add(f model.Family, list []nft.ConnectionCount) {
	s.counters[f] = len(list)
	for i := range list {
		c := &list[i]
		counts := s.portOf(c.Destination)
		if counts == nil {
			continue
		}
		key := pair{c.Destination, c.Endpoint}
		more := c.Connections
		if before := s.last[f][key]; before <= more {
			more -= before
		}
		s.last[f][key] = c.Connections
		counts.total += more
		if !c.Endpoint.IsValid() {
			continue
		}
		if counts.endpoints == nil {
			counts.endpoints = map[netip.AddrPort]uint64{}
		}
		counts.endpoints[c.Endpoint] += more
	}
}

func (s *tracker) totals() []PortTotal {
	out := make([]PortTotal, 0, len(s.ports))
	for port, counts := range s.ports {
		if counts.total == 0 {
			continue
		}
		t := PortTotal{Port: port, Number: counts.number, Connections: counts.total}
		for e, n := range counts.endpoints {
			if counts.serves(e) {
				t.Endpoints = append(t.Endpoints, EndpointTotal{e, n})
			}
		}
		slices.SortFunc(t.Endpoints, func(a, b EndpointTotal) int { return a.Endpoint.Compare(b.Endpoint) })
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b PortTotal) int { return a.Compare(b.Port) })
	for _, r := range slices.Concat(s.refusals[:]...) {
		counts := s.portOf(r.Match)
		if counts == nil {
			continue
		}
		if i, found := slices.BinarySearchFunc(out, counts.port, PortTotal.Compare); found {
			out[i].Refusals += r.Refusals
			out[i].Retried += r.Retried
		}
	}
	return out
}

// Compare compares by namespace, name, port, protocol and family.
func (p Port) Compare(o Port) int {
	return cmp.Or(
		p.ServiceName.Compare(o.ServiceName), strings.Compare(p.ServicePortName.Port, o.ServicePortName.Port),
		cmp.Compare(p.Protocol, o.Protocol), cmp.Compare(p.Family, o.Family),
	)
}
