package model

import (
	"cmp"
	"maps"
	"slices"
)

// Conflict is a claim that lost: Loser wanted a match that the older Winner
// holds. The loser's frontend is not programmed while that is so. Both may be
// ports of one Service, of which the first wins.
type Conflict struct {
	Match         Match
	Winner, Loser ServicePortName
}

// claims decides which Service holds a match that several ask for. Kubernetes
// does not stop two Services from listing the same external address, nor a
// folder from listing the same ClusterIP twice. Whose ClusterIP it is wins, then whose
// load balancer's address, then the older Service, at any time and on every node; when it goes, the next one takes
// over.
type claims struct {
	asked map[Match][]claim
	// settled and lost are what the last settlement said.
	settled map[Match]*Frontend
	lost    map[Match]map[Conflict]struct{}
	losers  int // how many conflicts are in lost
}

// claim is one Service's wish for a match.
type claim struct {
	service  *Service
	frontend *Frontend
}

func newClaims() claims {
	return claims{
		asked:   map[Match][]claim{},
		settled: map[Match]*Frontend{},
		lost:    map[Match]map[Conflict]struct{}{},
	}
}

// add notes that the Service wants the frontend.
func (c *claims) add(s *Service, f *Frontend) {
	asked := c.asked[f.Match]
	i := slices.IndexFunc(asked, func(other claim) bool { return claim{s, f}.before(other) })
	if i < 0 {
		i = len(asked)
	}
	c.asked[f.Match] = slices.Insert(asked, i, claim{s, f})
}

// before reports whether a claim wins over another. What a cluster gave out wins over
// what a Service's author wrote: else an older Service could list addresses that are
// not given out yet as its external ones, and get the traffic of whoever is given
// them (CVE-2020-8554).
func (c claim) before(o claim) bool {
	if order := cmp.Compare(c.frontend.Kind.authority(), o.frontend.Kind.authority()); order != 0 {
		return order < 0
	}
	return c.service.olderThan(o.service)
}

// authority is smaller the fewer may write addresses of the kind: the API server
// gives out ClusterIPs and node ports, controllers write addresses of load balancers,
// and everybody who may make Services writes external IPs.
func (k Kind) authority() int {
	switch k {
	case LoadBalancerIP:
		return 1
	case ExternalIP:
		return 2
	}
	return 0
}

// withdraw forgets what the Service of that name wants of a match, which must
// be settled next.
func (c *claims) withdraw(name ServiceName, m Match) {
	c.asked[m] = slices.DeleteFunc(c.asked[m], func(cl claim) bool { return cl.service.Name == name })
}

// settle decides the touched matches, in any order and maybe several times the
// same, and says what that changed.
func (c *claims) settle(touched []Match) Changes {
	var out Changes
	slices.SortFunc(touched, Match.Compare)
	for _, m := range slices.Compact(touched) {
		before, after := c.settled[m], c.winner(m)
		switch {
		case after != nil:
			c.settled[m] = after
			if before == nil || !before.equal(after) {
				out.Set = append(out.Set, *after)
			}
		case before != nil:
			out.Gone = append(out.Gone, m)
			delete(c.settled, m)
		}
		out.Conflicts = append(out.Conflicts, c.settleLosers(m, after)...)
		if len(c.asked[m]) == 0 {
			delete(c.asked, m)
		}
	}
	return out
}

// settleLosers lists the conflicts over m that were not there before, the
// oldest loser first.
func (c *claims) settleLosers(m Match, winner *Frontend) []Conflict {
	asked, before := c.asked[m], c.lost[m]
	c.losers -= len(before)
	if winner == nil || len(asked) < 2 {
		delete(c.lost, m)
		return nil
	}
	var fresh []Conflict
	now := map[Conflict]struct{}{}
	for _, loser := range asked {
		lost := Conflict{m, winner.Service, loser.frontend.Service}
		if _, twice := now[lost]; twice || lost.Loser == lost.Winner || !c.reachable(loser.frontend) {
			continue
		}
		now[lost] = struct{}{}
		if _, known := before[lost]; !known {
			fresh = append(fresh, lost)
		}
	}
	c.lost[m] = now
	c.losers += len(now)
	return fresh
}

// winner is the frontend that holds m, or nil.
func (c *claims) winner(m Match) *Frontend {
	for _, cl := range c.asked[m] {
		if c.reachable(cl.frontend) {
			return cl.frontend
		}
	}
	return nil
}

// reachable reports whether the frontend is one that leads to its pool: a
// Service port that lost its ClusterIP has none, and so no other address either.
func (c *claims) reachable(f *Frontend) bool {
	if f.Owner() {
		return true
	}
	owner := c.asked[f.Pool.Key]
	return len(owner) > 0 && owner[0].frontend.Pool == f.Pool
}

// contested lists the Services that want one of the matches as their ClusterIP,
// together with others: of these, who holds it may have changed, and with it who
// is reachable.
func (c *claims) contested(matches []Match) []ServiceName {
	var names []ServiceName
	for _, m := range matches {
		asked, settled := c.asked[m], c.settled[m]
		taken := settled != nil && len(asked) > 0 && settled.Service != asked[0].frontend.Service
		if len(asked) < 2 && !taken {
			continue
		}
		for _, cl := range asked {
			if cl.frontend.Kind == ClusterIP {
				names = append(names, cl.service.Name)
			}
		}
	}
	return names
}

// winners lists what was settled last, sorted by Match.
func (c *claims) winners() []Frontend {
	out := make([]Frontend, 0, len(c.settled))
	for _, m := range slices.SortedFunc(maps.Keys(c.settled), Match.Compare) {
		out = append(out, *c.settled[m])
	}
	return out
}
