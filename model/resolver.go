package model

import (
	"cmp"
	"slices"
)

// resolver computes what the changed entries of a [ServiceMap] change:
//
//	changed entries --> their old claims are removed, claims of their new ClusterIPs added
//	ClusterIPs with another holder --> claims of the port's external addresses are added or removed
//	touched matches --> winners and losers
//
// A Service port that lost its ClusterIP claims no other address, because the ClusterIP's
// pool holds its endpoints.
type resolver struct {
	*ServiceMap
	touched     []Match
	entries     []*serviceEntry // whose ports may have won or lost their ClusterIP
	added       []claim
	knownLosers map[lostClaim]struct{} // claims that lost before, or are reported already
}

// lostClaim identifies a claim that loses.
type lostClaim struct {
	match   Match
	service ServicePortName
}

// rebuild computes the entry's frontends again. Of these, only ClusterIPs are claimed
// so far.
func (r *resolver) rebuild(e *serviceEntry) {
	holdsClusterIP := false
	for i := range e.frontends {
		f := &e.frontends[i]
		if f.IsClusterIP() {
			holdsClusterIP = !e.lostClusterIPs[f]
		}
		if f.IsClusterIP() || holdsClusterIP {
			r.removeClaim(e, f)
		}
	}
	e.builtFrom, e.lostClusterIPs, e.rebuilt = e.service, nil, true
	r.update(e)
	for i := range e.frontends {
		if f := &e.frontends[i]; f.IsClusterIP() {
			r.addClaim(e, f)
		}
	}
	r.entries = append(r.entries, e)
}

func (r *resolver) addClaim(e *serviceEntry, f *Frontend) {
	cl := claim{e.builtFrom, f}
	r.claims.add(cl)
	r.added = append(r.added, cl)
	r.touched = append(r.touched, f.Match)
}

func (r *resolver) removeClaim(e *serviceEntry, f *Frontend) {
	if r.claims.loserCounts[f.Match] > 0 && r.claims.winners[f.Match] != f {
		r.markKnown(f)
	}
	r.claims.remove(claim{e.builtFrom, f})
	r.touched = append(r.touched, f.Match)
}

// markKnown keeps the claim of the frontend from being reported as an added one.
func (r *resolver) markKnown(f *Frontend) {
	if r.knownLosers == nil {
		r.knownLosers = map[lostClaim]struct{}{}
	}
	r.knownLosers[lostClaim{f.Match, f.Service}] = struct{}{}
}

// changes resolves all matches that were touched.
func (r *resolver) changes() Changes {
	r.addContested()
	for _, e := range r.entries {
		r.resolvePorts(e)
	}
	for _, m := range r.touched {
		r.touched = append(r.touched, r.claims.coveredBy(m)...)
	}
	slices.SortFunc(r.touched, Match.Compare)
	r.touched = slices.Compact(r.touched)
	var out Changes
	var losers []claim
	covered := r.covered()
	for _, m := range r.touched {
		before := r.claims.resolve(m, &out)
		switch {
		case before != nil && before != r.claims.winners[m]:
			losers = r.appendDisplaced(losers, before)
		case before == nil && r.claims.winners[m] != nil:
			if by, was := covered[m]; was {
				losers = r.appendUncovered(losers, m, by)
			}
		}
	}
	out.Conflicts = r.conflicts(losers)
	r.claims.shrink()
	return out
}

// addContested adds the entries that won or lost a ClusterIP because another entry
// changed.
func (r *resolver) addContested() {
	changed := len(r.entries)
	for _, m := range r.touched {
		before, after := r.claims.winners[m], r.claims.first(m)
		if before == nil || after == nil || !before.IsClusterIP() || !after.frontend.IsClusterIP() {
			continue
		}
		was, is := before.Service.ServiceName, after.frontend.Service.ServiceName
		if was == is {
			continue
		}
		for _, name := range [...]ServiceName{was, is} {
			if e := r.services[name]; e != nil {
				r.entries = append(r.entries, e)
			}
		}
	}
	if len(r.entries) == changed {
		return
	}
	slices.SortFunc(r.entries, func(a, b *serviceEntry) int { return a.name.Compare(b.name) })
	r.entries = slices.Compact(r.entries)
}

// resolvePorts adds or removes the claims of external addresses for each port of the
// entry that won or lost its ClusterIP.
func (r *resolver) resolvePorts(e *serviceEntry) {
	var held, holds bool // the ClusterIP of the port, before and now
	for i := range e.frontends {
		f := &e.frontends[i]
		switch {
		case f.IsClusterIP():
			held = !e.rebuilt && !e.lostClusterIPs[f]
			holds = r.claims.first(f.Match).frontend == f
			e.setClusterIPLost(f, !holds)
		case holds && !held:
			r.addClaim(e, f)
		case held && !holds:
			r.removeClaim(e, f)
		}
	}
	e.rebuilt = false
}

// appendDisplaced appends the claim of a frontend that was the winner before, if its
// Service still has that claim.
func (r *resolver) appendDisplaced(losers []claim, f *Frontend) []claim {
	if e := r.services[f.Service.ServiceName]; e != nil && e.builtFrom != nil {
		cl := claim{e.builtFrom, f}
		if _, exists := r.claims.find(cl); exists {
			return append(losers, cl)
		}
	}
	return losers
}

// covered returns the Service ports whose node ports served touched matches before, which have no
// winner of their own.
func (r *resolver) covered() map[Match]ServicePortName {
	out := map[Match]ServicePortName{}
	for _, m := range r.touched {
		if len(r.claims.byMatch[m]) < 2 || r.claims.winners[m] != nil {
			continue // almost always
		}
		if port := r.claims.winners[m.atNodePort()]; port != nil {
			out[m] = port.Service
		}
	}
	return out
}

// appendUncovered appends the claims by a Service port, whose node port served the match before, of
// a match that has a winner now.
func (r *resolver) appendUncovered(losers []claim, m Match, by ServicePortName) []claim {
	for _, cl := range r.claims.byMatch[m][1:] {
		if cl.frontend.Service == by {
			losers = append(losers, cl)
			r.markKnown(cl.frontend) // it may be in r.added, too
		}
	}
	return losers
}

// conflicts lists the conflicts of the losers and of the added claims, except for
// those that lost before.
func (r *resolver) conflicts(losers []claim) []Conflict {
	for _, cl := range r.added {
		m := cl.frontend.Match
		if r.claims.loserCounts[m] == 0 {
			continue // the common case
		}
		if _, known := r.knownLosers[lostClaim{m, cl.frontend.Service}]; !known {
			losers = append(losers, cl)
		}
	}
	slices.SortFunc(losers, func(a, b claim) int {
		return cmp.Or(a.frontend.Match.Compare(b.frontend.Match), a.compare(b))
	})
	var out []Conflict
	for _, cl := range losers {
		if c, loses := r.claims.conflict(cl); loses {
			out = append(out, c)
		}
	}
	return out
}
