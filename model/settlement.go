package model

import (
	"cmp"
	"slices"
)

// settlement works out what the changed entries of a [ServiceMap] change:
//
//	changed entries --> their old claims go, those of their new ClusterIPs come
//	ClusterIPs with another holder --> claims of the addresses in front of them come or go
//	touched matches --> winners and losers
//
// A Service port that lost its ClusterIP claims no other address: without it,
// none of them leads to an endpoint.
type settlement struct {
	*ServiceMap
	touched []Match
	ports   []*entry // whose ports may have won or lost their ClusterIP
	entered []claim
	lost    map[lostClaim]struct{} // claims of changed entries that lost before
}

// lostClaim names a claim that loses.
type lostClaim struct {
	match   Match
	service ServicePortName
}

// replace computes the entry's frontends again. Of those, only ClusterIPs are
// claimed yet.
func (s *settlement) replace(e *entry) {
	holds := false
	for i := range e.frontends {
		f := &e.frontends[i]
		if f.OwnsPool() {
			holds = !e.without[f]
		}
		if f.OwnsPool() || holds {
			s.withdraw(e, f)
		}
	}
	e.served, e.without, e.replaced = e.service, nil, true
	s.update(e)
	for i := range e.frontends {
		if f := &e.frontends[i]; f.OwnsPool() {
			s.enter(e, f)
		}
	}
	s.ports = append(s.ports, e)
}

func (s *settlement) enter(e *entry, f *Frontend) {
	cl := claim{e.served, f}
	s.claims.enter(cl)
	s.entered = append(s.entered, cl)
	s.touched = append(s.touched, f.Match)
}

func (s *settlement) withdraw(e *entry, f *Frontend) {
	if s.claims.lost[f.Match] > 0 && s.claims.settled[f.Match] != f {
		if s.lost == nil {
			s.lost = map[lostClaim]struct{}{}
		}
		s.lost[lostClaim{f.Match, f.Service}] = struct{}{}
	}
	s.claims.withdraw(claim{e.served, f})
	s.touched = append(s.touched, f.Match)
}

// contested finds the entries that won or lost a ClusterIP because another one
// changed.
func (s *settlement) contested() {
	changed := len(s.ports)
	for _, m := range s.touched {
		before, after := s.claims.settled[m], s.claims.first(m)
		if before == nil || after == nil || !before.OwnsPool() || !after.frontend.OwnsPool() {
			continue
		}
		was, is := before.Service.ServiceName, after.frontend.Service.ServiceName
		if was == is {
			continue
		}
		for _, name := range [...]ServiceName{was, is} {
			if e := s.services[name]; e != nil {
				s.ports = append(s.ports, e)
			}
		}
	}
	if len(s.ports) == changed {
		return
	}
	slices.SortFunc(s.ports, func(a, b *entry) int { return a.name.Compare(b.name) })
	s.ports = slices.Compact(s.ports)
}

// settlePorts enters or withdraws the claims of the addresses in front of each of
// the entry's ClusterIPs, as its port holds that or not.
func (s *settlement) settlePorts(e *entry) {
	var held, holds bool
	for i := range e.frontends {
		f := &e.frontends[i]
		switch {
		case f.OwnsPool():
			held = !e.replaced && !e.without[f]
			holds = s.claims.first(f.Match).frontend == f
			e.setWithout(f, !holds)
		case holds && !held:
			s.enter(e, f)
		case held && !holds:
			s.withdraw(e, f)
		}
	}
	e.replaced = false
}

// setWithout notes whether a port is without its ClusterIP.
func (e *entry) setWithout(owner *Frontend, without bool) {
	switch {
	case !without:
		delete(e.without, owner)
	case e.without == nil:
		e.without = map[*Frontend]bool{owner: true}
	default:
		e.without[owner] = true
	}
}

// changes settles all that was touched.
func (s *settlement) changes() Changes {
	s.contested()
	for _, e := range s.ports {
		s.settlePorts(e)
	}
	for _, m := range s.touched {
		s.touched = append(s.touched, s.claims.beside(m)...)
	}
	slices.SortFunc(s.touched, Match.Compare)
	s.touched = slices.Compact(s.touched)
	var out Changes
	var losers []claim
	for _, m := range s.touched {
		if before := s.claims.settle(m, &out); before != nil && before != s.claims.settled[m] {
			losers = s.appendDisplaced(losers, before)
		}
	}
	out.Conflicts = s.conflicts(losers)
	s.claims.shrink()
	return out
}

// appendDisplaced appends the claim of a frontend that held its match until now, if
// its Service still has that claim.
func (s *settlement) appendDisplaced(losers []claim, f *Frontend) []claim {
	if e := s.services[f.Service.ServiceName]; e != nil && e.served != nil {
		cl := claim{e.served, f}
		if _, claims := s.claims.find(cl); claims {
			return append(losers, cl)
		}
	}
	return losers
}

// conflicts lists the conflicts of the losers and of the claims that were entered,
// unless they lost before.
func (s *settlement) conflicts(losers []claim) []Conflict {
	for _, cl := range s.entered {
		m := cl.frontend.Match
		if s.claims.lost[m] == 0 || s.claims.settled[m] == cl.frontend {
			continue
		}
		if _, known := s.lost[lostClaim{m, cl.frontend.Service}]; !known {
			losers = append(losers, cl)
		}
	}
	slices.SortFunc(losers, func(a, b claim) int {
		return cmp.Or(a.frontend.Match.Compare(b.frontend.Match), a.compare(b))
	})
	var out []Conflict
	for _, cl := range losers {
		if c, loses := s.claims.conflict(cl); loses {
			out = append(out, c)
		}
	}
	return out
}
