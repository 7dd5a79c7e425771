package model

import (
	"maps"
	"slices"
)

// Conflict is a claim that lost: Loser wanted a match that the older Winner
// holds. The loser's frontend is not programmed while that is so.
type Conflict struct {
	Match         Match
	Winner, Loser ServicePortName
}

// claims decides which Service holds a match that several ask for. Kubernetes
// does not stop two Services from listing the same external address, nor a
// folder from listing the same ClusterIP twice. The older Service wins, at any
// time and on every node; when it goes, the next one takes over.
type claims struct {
	asked map[Match][]claim
	// settled and lost are what the last settlement said.
	settled map[Match]*Frontend
	lost    map[Match][]Conflict
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
		lost:    map[Match][]Conflict{},
	}
}

// add notes that the Service wants the frontend.
func (c claims) add(s *Service, f *Frontend) {
	asked := c.asked[f.Match]
	i := slices.IndexFunc(asked, func(other claim) bool { return s.olderThan(other.service) })
	if i < 0 {
		i = len(asked)
	}
	c.asked[f.Match] = slices.Insert(asked, i, claim{s, f})
}

// withdraw forgets what the Service of that name wants of a match.
func (c claims) withdraw(name ServiceName, m Match) {
	left := slices.DeleteFunc(c.asked[m], func(cl claim) bool { return cl.service.Name == name })
	if len(left) == 0 {
		delete(c.asked, m)
		return
	}
	c.asked[m] = left
}

// settle decides the touched matches and says what that changed.
func (c claims) settle(touched map[Match]struct{}) Changes {
	var out Changes
	for m := range touched {
		before, after := c.settled[m], c.winner(m)
		switch {
		case after == nil && before != nil:
			out.Gone = append(out.Gone, m)
			delete(c.settled, m)
		case after != nil:
			c.settled[m] = after
			if before == nil || !before.equal(after) {
				out.Set = append(out.Set, *after)
			}
		}
		out.Conflicts = append(out.Conflicts, c.settleLosers(m)...)
	}
	slices.SortFunc(out.Set, func(a, b Frontend) int { return a.Match.Compare(b.Match) })
	slices.SortFunc(out.Gone, Match.Compare)
	slices.SortFunc(out.Conflicts, func(a, b Conflict) int { return a.Match.Compare(b.Match) })
	return out
}

// settleLosers lists the conflicts over m that were not there before.
func (c claims) settleLosers(m Match) []Conflict {
	var now, fresh []Conflict
	asked := c.asked[m]
	for i := 1; i < len(asked); i++ {
		lost := Conflict{m, asked[0].frontend.Service, asked[i].frontend.Service}
		now = append(now, lost)
		if !slices.Contains(c.lost[m], lost) {
			fresh = append(fresh, lost)
		}
	}
	if now == nil {
		delete(c.lost, m)
	} else {
		c.lost[m] = now
	}
	return fresh
}

// winner is the frontend that holds m, or nil.
func (c claims) winner(m Match) *Frontend {
	if asked := c.asked[m]; len(asked) > 0 {
		return asked[0].frontend
	}
	return nil
}

// winners lists what was settled last, sorted by Match.
func (c claims) winners() []Frontend {
	out := make([]Frontend, 0, len(c.settled))
	for _, m := range slices.SortedFunc(maps.Keys(c.settled), Match.Compare) {
		out = append(out, *c.settled[m])
	}
	return out
}
