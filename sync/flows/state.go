package flows

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
)

// state is what the kernel's rules are known to do, and what is still to be done
// about flows.
type state struct {
	protocols []model.Protocol
	// endpoints are those that flows of a frontend may use, sorted.
	endpoints map[model.Match][]netip.AddrPort
	nodeAddrs []netip.Addr // sorted
	todo      [len(model.Families)]todo
}

// todo are frontends of one family whose flows are to be looked at.
type todo struct {
	whole   bool // all that are known, besides
	matches map[model.Match]struct{}
}

func newState(protocols []model.Protocol) state {
	s := state{protocols: protocols, endpoints: map[model.Match][]netip.AddrPort{}}
	for f := range s.todo {
		s.todo[f] = todo{matches: map[model.Match]struct{}{}}
	}
	return s
}

// take brings the state up to date.
func (s *state) take(t sync.Taken) {
	if t.Whole {
		s.takeWhole(t.Set)
	} else {
		s.takeChange(t)
	}
	s.takeNodeAddrs(t.NodeAddrs)
}

// takeWhole takes in all there is.
func (s *state) takeWhole(all []model.Frontend) {
	known := s.endpoints
	s.endpoints = make(map[model.Match][]netip.AddrPort, len(known))
	for i := range all {
		if m := all[i].Match; s.follows(m) {
			s.endpoints[m] = all[i].Pool.Flows
		}
	}
	for m := range known {
		if _, still := s.endpoints[m]; !still {
			s.look(m)
		}
	}
	for f := range s.todo {
		s.todo[f].whole = true
	}
}

func (s *state) takeChange(t sync.Taken) {
	for _, m := range t.Gone {
		if _, known := s.endpoints[m]; known {
			delete(s.endpoints, m)
			s.look(m)
		}
	}
	for i := range t.Set {
		m := t.Set[i].Match
		if !s.follows(m) {
			continue
		}
		before, known := s.endpoints[m]
		s.endpoints[m] = t.Set[i].Pool.Flows
		if !known || !contain(s.endpoints[m], before) {
			s.look(m)
		}
	}
}

// takeNodeAddrs takes in the addresses that serve node ports. To new ones there
// may be flows from before. Flows to one that is gone are left alone: it may be
// back in a moment, and if not, nobody misses what they lead to.
func (s *state) takeNodeAddrs(all []netip.Addr) {
	known := s.nodeAddrs
	s.nodeAddrs = all
	var fresh [len(model.Families)]bool
	for _, a := range all {
		if !has(known, a) {
			fresh[model.FamilyOf(a)] = true
		}
	}
	if fresh == [len(model.Families)]bool{} {
		return
	}
	for m := range s.endpoints {
		if !m.Addr.IsValid() && fresh[m.Family] {
			s.look(m)
		}
	}
}

func (s *state) follows(m model.Match) bool { return slices.Contains(s.protocols, m.Protocol) }

// look notes that flows of a frontend are to be looked at.
func (s *state) look(m model.Match) { s.todo[m.Family].matches[m] = struct{}{} }

// due reports whether there is anything to do.
func (s *state) due() bool {
	return slices.ContainsFunc(s.todo[:], func(t todo) bool { return !t.empty() })
}

func (t todo) empty() bool { return !t.whole && len(t.matches) == 0 }

// has reports whether the frontend is one of those to look at, not counting that
// all are.
func (t todo) has(m model.Match) bool {
	_, ok := t.matches[m]
	return ok
}

// begin hands out what is to be done; it counts as done until it is put back.
func (s *state) begin(f model.Family) todo {
	job := s.todo[f]
	s.todo[f] = todo{matches: map[model.Match]struct{}{}}
	return job
}

// putBack makes what failed due again.
func (s *state) putBack(f model.Family, job todo) {
	s.todo[f].whole = s.todo[f].whole || job.whole
	maps.Copy(s.todo[f].matches, job.matches)
}

// queries are what to ask the kernel for: if all is to be looked at, for whatever
// it has of a protocol, else for the ports that matter.
func (s *state) queries(f model.Family, job todo) []conntrack.Query {
	ports := map[model.Protocol]map[uint16]struct{}{}
	for m := range s.concerned(f, job) {
		if ports[m.Protocol] == nil {
			ports[m.Protocol] = map[uint16]struct{}{}
		}
		ports[m.Protocol][m.Port] = struct{}{}
	}
	var queries []conntrack.Query
	for _, p := range s.protocols {
		q := conntrack.Query{Family: f, Protocol: p}
		if !job.whole {
			q.Ports = slices.Sorted(maps.Keys(ports[p]))
		}
		if len(ports[p]) > 0 {
			queries = append(queries, q)
		}
	}
	return queries
}

// concerned yields all frontends of the family that the job is about.
func (s *state) concerned(f model.Family, job todo) iter.Seq[model.Match] {
	return func(yield func(model.Match) bool) {
		for m := range job.matches {
			if !yield(m) {
				return
			}
		}
		for m := range s.endpoints {
			if job.whole && m.Family == f && !yield(m) {
				return
			}
		}
	}
}

// stale reports whether a flow leads nowhere, as far as the job goes.
func (s *state) stale(e conntrack.Entry, job todo) bool {
	to := e.Original
	own := model.Match{Family: e.Family(), Addr: to.Addr(), Protocol: e.Protocol, Port: to.Port()}
	node := own
	node.Addr = netip.Addr{}
	atNode := has(s.nodeAddrs, to.Addr())
	named := job.has(own) || atNode && job.has(node)
	if !named && !job.whole {
		return false
	}
	endpoints, served := s.endpoints[own]
	if !served && atNode {
		endpoints, served = s.endpoints[node]
	}
	if !served {
		return named // and gone
	}
	_, current := slices.BinarySearchFunc(endpoints, e.Reply, netip.AddrPort.Compare)
	return !current
}

// contain reports whether all of some are in all. Both are sorted.
func contain(all, some []netip.AddrPort) bool {
	for _, a := range some {
		if len(all) > 0 && all[0] == a { // as nearly always
			all = all[1:]
			continue
		}
		i, found := slices.BinarySearchFunc(all, a, netip.AddrPort.Compare)
		if !found {
			return false
		}
		all = all[i+1:]
	}
	return true
}

// has reports whether a is in sorted.
func has(sorted []netip.Addr, a netip.Addr) bool {
	_, found := slices.BinarySearchFunc(sorted, a, netip.Addr.Compare)
	return found
}
