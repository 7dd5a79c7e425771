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

// tracker is what the kernel's rules are known to do, and what is still to be done
// about flows.
type tracker struct {
	protocols []model.Protocol
	// endpoints are those that flows of a frontend may use, sorted.
	endpoints map[model.Match][]netip.AddrPort
	nodeAddrs []netip.Addr // sorted
	pending   [len(model.Families)]pendingChecks
}

// pendingChecks are frontends of one family whose flows are to be looked at.
type pendingChecks struct {
	all       bool // all that are known, besides
	frontends map[model.Match]struct{}
}

func newTracker(protocols []model.Protocol) tracker {
	s := tracker{protocols: protocols, endpoints: map[model.Match][]netip.AddrPort{}}
	for f := range s.pending {
		s.pending[f] = pendingChecks{frontends: map[model.Match]struct{}{}}
	}
	return s
}

// apply brings the state up to date.
func (s *tracker) apply(t sync.Committed) {
	if t.Full {
		s.applySnapshot(t.Set)
	} else {
		s.applyChange(t)
	}
	s.applyNodeAddrs(t.NodeAddrs)
}

// applySnapshot takes in all there is.
func (s *tracker) applySnapshot(all []model.Frontend) {
	known := s.endpoints
	s.endpoints = make(map[model.Match][]netip.AddrPort, len(known))
	for i := range all {
		if m := all[i].Match; s.tracks(m) {
			s.endpoints[m] = all[i].Pool.FlowEndpoints
		}
	}
	for m := range known {
		if _, still := s.endpoints[m]; !still {
			s.markForCheck(m)
		}
	}
	for f := range s.pending {
		s.pending[f].all = true
	}
}

func (s *tracker) applyChange(t sync.Committed) {
	for _, m := range t.Gone {
		if _, known := s.endpoints[m]; known {
			delete(s.endpoints, m)
			s.markForCheck(m)
		}
	}
	for i := range t.Set {
		m := t.Set[i].Match
		if !s.tracks(m) {
			continue
		}
		before, known := s.endpoints[m]
		s.endpoints[m] = t.Set[i].Pool.FlowEndpoints
		if !known || !containsAll(s.endpoints[m], before) {
			s.markForCheck(m)
		}
	}
}

// applyNodeAddrs takes in the addresses that serve node ports. To new ones there
// may be flows from before. Flows to one that is gone are left alone: it may be
// back in a moment, and if not, nobody misses what they lead to.
func (s *tracker) applyNodeAddrs(all []netip.Addr) {
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
			s.markForCheck(m)
		}
	}
}

func (s *tracker) tracks(m model.Match) bool { return slices.Contains(s.protocols, m.Protocol) }

// markForCheck notes that flows of a frontend are to be looked at.
func (s *tracker) markForCheck(m model.Match) { s.pending[m.Family].frontends[m] = struct{}{} }

// hasPending reports whether there is anything to do.
func (s *tracker) hasPending() bool {
	return slices.ContainsFunc(s.pending[:], func(t pendingChecks) bool { return !t.empty() })
}

func (t pendingChecks) empty() bool { return !t.all && len(t.frontends) == 0 }

// has reports whether the frontend is one of those to look at, not counting that
// all are.
func (t pendingChecks) has(m model.Match) bool {
	_, ok := t.frontends[m]
	return ok
}

// takePending hands out what is to be done; it counts as done until it is put back.
func (s *tracker) takePending(f model.Family) pendingChecks {
	job := s.pending[f]
	s.pending[f] = pendingChecks{frontends: map[model.Match]struct{}{}}
	return job
}

// putBack makes what failed due again.
func (s *tracker) putBack(f model.Family, job pendingChecks) {
	s.pending[f].all = s.pending[f].all || job.all
	maps.Copy(s.pending[f].frontends, job.frontends)
}

// queries are what to ask the kernel for: if all is to be looked at, for whatever
// it has of a protocol, else for the ports that matter.
func (s *tracker) queries(f model.Family, job pendingChecks) []conntrack.Query {
	ports := map[model.Protocol]map[uint16]struct{}{}
	for m := range s.matchesOf(f, job) {
		if ports[m.Protocol] == nil {
			ports[m.Protocol] = map[uint16]struct{}{}
		}
		ports[m.Protocol][m.Port] = struct{}{}
	}
	var queries []conntrack.Query
	for _, p := range s.protocols {
		q := conntrack.Query{Family: f, Protocol: p}
		if !job.all {
			q.Ports = slices.Sorted(maps.Keys(ports[p]))
		}
		if len(ports[p]) > 0 {
			queries = append(queries, q)
		}
	}
	return queries
}

// matchesOf yields all frontends of the family that the job is about.
func (s *tracker) matchesOf(f model.Family, job pendingChecks) iter.Seq[model.Match] {
	return func(yield func(model.Match) bool) {
		for m := range job.frontends {
			if !yield(m) {
				return
			}
		}
		for m := range s.endpoints {
			if job.all && m.Family == f && !yield(m) {
				return
			}
		}
	}
}

// isStale reports whether a flow leads nowhere, as far as the job goes.
func (s *tracker) isStale(e conntrack.Entry, job pendingChecks) bool {
	to := e.Original
	own := model.Match{Family: e.Family(), Addr: to.Addr(), Protocol: e.Protocol, Port: to.Port()}
	node := own
	node.Addr = netip.Addr{}
	atNode := has(s.nodeAddrs, to.Addr())
	named := job.has(own) || atNode && job.has(node)
	if !named && !job.all {
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

// containsAll reports whether all of some are in all. Both are sorted.
func containsAll(all, some []netip.AddrPort) bool {
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
