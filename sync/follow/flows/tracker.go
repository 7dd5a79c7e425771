package flows

import (
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
)

// A tracker knows the endpoints of each frontend, and which frontends' flows to check.
type tracker struct {
	protocols []model.Protocol                 // whose stale flows end
	endpoints map[model.Match][]netip.AddrPort // that flows of a frontend may use, sorted
	nodeAddrs []netip.Addr                     // sorted
	pending   [len(model.Families)]pendingChecks
}

// pendingChecks are the frontends of one family whose flows must be checked.
type pendingChecks struct {
	all       bool // all known frontends, and those listed
	frontends sets.Set[model.Match]
}

func newTracker(protocols []model.Protocol) tracker {
	s := tracker{protocols: protocols, endpoints: map[model.Match][]netip.AddrPort{}}
	for f := range s.pending {
		s.pending[f] = pendingChecks{frontends: sets.New[model.Match]()}
	}
	return s
}

func (s *tracker) apply(t sync.Committed) {
	if t.Full {
		s.applySnapshot(t.Set, t.Gone)
	} else {
		s.applyChange(t)
	}
	s.applyNodeAddrs(t.NodeAddrs)
}

func (s *tracker) applySnapshot(all []model.Frontend, gone []model.Match) {
	known := s.endpoints
	s.endpoints = make(map[model.Match][]netip.AddrPort, len(known))
	for i := range all {
		if s.tracks(&all[i]) {
			s.endpoints[all[i].Match] = all[i].Pool.FlowEndpoints
		}
	}
	for m := range known {
		if _, still := s.endpoints[m]; !still {
			s.markGone(m)
		}
	}
	for _, m := range gone {
		s.markGone(m)
	}
	for f := range s.pending {
		s.pending[f].all = true
	}
}

func (s *tracker) applyChange(t sync.Committed) {
	for _, m := range t.Gone {
		if _, known := s.endpoints[m]; known {
			delete(s.endpoints, m)
			s.markGone(m)
		}
	}
	for i := range t.Set {
		m := t.Set[i].Match
		if !s.tracks(&t.Set[i]) {
			continue
		}
		before, known := s.endpoints[m]
		s.endpoints[m] = t.Set[i].Pool.FlowEndpoints
		if !known || s.ends(m.Protocol) && !containsAll(s.endpoints[m], before) {
			s.markForCheck(m)
		}
	}
}

// applyNodeAddrs sets the addresses that serve node ports. New ones may have flows from before.
// Flows to a removed address stay: it may be added again soon, and otherwise they do no harm.
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

// tracks reports whether flows of a frontend may have to end. Those of any protocol may have begun at
// an external address before it was programmed: as long as a client sends its first packet again,
// the kernel does not translate it.
func (s *tracker) tracks(f *model.Frontend) bool {
	return s.ends(f.Match.Protocol) || f.Kind == model.KindExternalIP || f.Kind == model.KindLoadBalancerIP
}

func (s *tracker) ends(p model.Protocol) bool { return slices.Contains(s.protocols, p) }

func (s *tracker) markGone(m model.Match) {
	if s.ends(m.Protocol) {
		s.markForCheck(m)
	}
}

func (s *tracker) markForCheck(m model.Match) { s.pending[m.Family].frontends.Insert(m) }

func (s *tracker) hasPending() bool {
	return slices.ContainsFunc(s.pending[:], func(t pendingChecks) bool { return t.all || len(t.frontends) > 0 })
}

func (s *tracker) takePending(f model.Family) pendingChecks {
	job := s.pending[f]
	s.pending[f] = pendingChecks{frontends: sets.New[model.Match]()}
	return job
}

func (s *tracker) putBack(f model.Family, job pendingChecks) {
	s.pending[f].all = s.pending[f].all || job.all
	maps.Copy(s.pending[f].frontends, job.frontends)
}

// queries returns the kernel queries for the checks: all flows of a protocol, or those of the port
// if the frontends have only one. The kernel walks its whole table for each request, and with the
// usual 262,144 buckets that takes as long as sending 13,000 entries.
func (s *tracker) queries(f model.Family, job pendingChecks) (queries []conntrack.Query) {
	for _, p := range model.Protocols {
		ports := sets.New[uint16]()
		for m := range job.frontends {
			if m.Protocol == p {
				ports.Insert(m.Port)
			}
		}
		all := job.all && s.hasAny(f, p)
		switch q := (conntrack.Query{Family: f, Protocol: p}); {
		case all || len(ports) > 1:
			queries = append(queries, q)
		case len(ports) == 1:
			q.Port, _ = ports.PopAny()
			queries = append(queries, q)
		}
	}
	return queries
}

func (s *tracker) hasAny(f model.Family, p model.Protocol) bool {
	for m := range s.endpoints {
		if m.Family == f && m.Protocol == p {
			return true
		}
	}
	return false
}

func (s *tracker) isStale(e conntrack.Entry, job pendingChecks) bool {
	if !s.ends(e.Protocol) && (e.Replied || e.Reply != e.Original) {
		return false
	}
	to := e.Original
	own := model.Match{Family: e.Family(), Addr: to.Addr(), Protocol: e.Protocol, Port: to.Port()}
	node := own
	node.Addr = netip.Addr{}
	atNode := has(s.nodeAddrs, to.Addr())
	named := job.frontends.Has(own) || atNode && job.frontends.Has(node)
	if !named && !job.all {
		return false
	}
	endpoints, served := s.endpoints[own]
	if !served && atNode {
		endpoints, served = s.endpoints[node]
	}
	if !served {
		return named // the frontend is gone
	}
	_, current := slices.BinarySearchFunc(endpoints, e.Reply, netip.AddrPort.Compare)
	return !current
}

// containsAll reports whether all contains some. Both are sorted.
func containsAll(all, some []netip.AddrPort) bool {
	for _, a := range some {
		if len(all) > 0 && all[0] == a { // the usual case
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

func has(sorted []netip.Addr, a netip.Addr) bool {
	_, found := slices.BinarySearchFunc(sorted, a, netip.Addr.Compare)
	return found
}
