package flows

import (
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
)

// A tracker knows the endpoints of each frontend, and which frontends' flows to check.
type tracker struct {
	protocols []model.Protocol // whose stale flows end
	frontends map[model.Match]frontend
	nodeAddrs model.NodeAddrs
	pending   [len(model.Families)]pendingChecks
}

// A frontend has the endpoints that its flows may use, sorted.
type frontend struct {
	endpoints []netip.AddrPort
	// unreplied means that flows of any protocol end if they have no reply: the Service holds or retries, and the
	// client's next packet gets another endpoint, or waits for one.
	unreplied bool
	// serves means that new flows are translated.
	serves bool
}

// pendingChecks are the frontends of one family whose flows must be checked.
type pendingChecks struct {
	all       bool // all known frontends, and those listed
	frontends sets.Set[model.Match]
}

func newTracker(protocols []model.Protocol) tracker {
	s := tracker{protocols: protocols, frontends: map[model.Match]frontend{}}
	for f := range s.pending {
		s.pending[f] = pendingChecks{frontends: sets.New[model.Match]()}
	}
	return s
}

// apply follows a commit. After a full one all flows are checked, including flows of what the
// kernel still had.
func (s *tracker) apply(t sync.Committed) {
	follow.Update(s.frontends, t, func(f *model.Frontend, before frontend, known bool) (now frontend, keeps bool) {
		if !s.tracks(f) {
			return now, false
		}
		now = frontend{f.Pool.FlowEndpoints, f.Pool.Hold > 0 || f.Pool.RetryRefused, f.Verdict == model.VerdictBalance}
		// A packet between the hooks, when the first endpoint was added, was not translated. At a
		// ClusterIP it was rejected.
		gained := now.serves && !before.serves && !f.IsClusterIP()
		ends := s.ends(f.Match.Protocol) || now.unreplied
		if !t.Full && (!known || gained || ends && !slices.Equal(now.endpoints, before.endpoints)) {
			s.markForCheck(f.Match)
		}
		return now, true
	}, func(m model.Match, _ frontend) { s.markGone(m) })
	if t.Full {
		for _, m := range t.Removed {
			s.markGone(m)
		}
		for f := range s.pending {
			s.pending[f].all = true
		}
	}
	s.applyNodeAddrs(t.NodeAddrs)
}

// applyNodeAddrs sets the addresses that serve node ports. New ones may have flows from before.
// Flows to a removed address stay: it may be added again soon, and otherwise they do no harm.
func (s *tracker) applyNodeAddrs(all []netip.Addr) {
	known := s.nodeAddrs
	s.nodeAddrs = all
	var fresh [len(model.Families)]bool
	for _, a := range all {
		if !known.Has(a) {
			fresh[model.FamilyOf(a)] = true
		}
	}
	if fresh == [len(model.Families)]bool{} {
		return
	}
	for m := range s.frontends {
		if !m.Addr.IsValid() && fresh[m.Family] {
			s.markForCheck(m)
		}
	}
}

// tracks reports whether flows of a frontend may have to end. Flows of any protocol may have begun
// at an external address before it was programmed, or had an endpoint: as long as a client sends its
// first packet again, the kernel does not translate it.
func (s *tracker) tracks(f *model.Frontend) bool {
	return s.ends(f.Match.Protocol) || f.Kind == model.KindExternalIP || f.Kind == model.KindLoadBalancerIP ||
		f.Pool.Hold > 0 || f.Pool.RetryRefused
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

// queries returns the kernel queries for the checks: all flows of a protocol, or of one port if
// the frontends have only one. The kernel walks its whole table for each request, and with the
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
	for m := range s.frontends {
		if m.Family == f && m.Protocol == p {
			return true
		}
	}
	return false
}

func (s *tracker) isStale(e conntrack.Entry, job pendingChecks) bool {
	ends := s.ends(e.Protocol)
	if !ends && e.Replied {
		return false
	}
	to := model.Match{
		Family: e.Family(), Addr: e.Original.Addr(), Protocol: e.Protocol, Port: e.Original.Port(),
	}
	_, _, named := model.Find(job.frontends, s.nodeAddrs, to)
	if !named && !job.all {
		return false
	}
	_, f, served := model.Find(s.frontends, s.nodeAddrs, to)
	switch {
	case !ends && e.Reply != e.Original && !f.unreplied:
		return false // it may have been translated to an endpoint
	case !served:
		return named // the frontend was removed
	}
	_, current := slices.BinarySearchFunc(f.endpoints, e.Reply, netip.AddrPort.Compare)
	return !current
}
