package simulate

import (
	"cmp"
	"slices"
)

// sum puts leaves together as they come, and keeps of each only what will be told.
type sum struct {
	*Walk
	sorts sorts
	seen  float64 // the probability of all leaves so far
	cut   bool    // there are others, which are not looked at
}

// add adds a leaf.
func (s *sum) add(l leaf) {
	s.Service = cmp.Or(s.Service, l.service)
	s.Kind = cmp.Or(s.Kind, l.kind)
	s.Affinity = cmp.Or(s.Affinity, l.affinity)
	s.Faults = union(s.Faults, l.faults)
	s.Doubts = union(s.Doubts, l.doubts)
	s.outcome(l)
	s.sorts.add(l)
	s.seen += l.probability
}

// left counts what is not looked at of the choices that a way had.
func (s *sum) left(c *choices) {
	for _, made := range c.made {
		switch n := made.of - made.explored; {
		case n == 0:
			continue
		case made.ours:
			s.Unseen.Endpoints = max(s.Unseen.Endpoints, int(n))
		default:
			s.Unseen.Others = true
		}
		s.cut = true
	}
}

// end is for when there are no more.
func (s *sum) end() {
	s.Steps = s.sorts.steps()
	if s.cut {
		s.Unseen.Probability = 1 - s.seen
	}
	for i := range s.Outcomes {
		list := s.Outcomes[i].Endpoints
		slices.SortStableFunc(list, func(a, b Endpoint) int { return cmp.Compare(b.Probability, a.Probability) })
	}
	slices.SortStableFunc(s.Outcomes, func(a, b Outcome) int { return cmp.Compare(b.Probability, a.Probability) })
}

// outcome adds a leaf to the outcome that it belongs to.
func (s *sum) outcome(l leaf) {
	i := slices.IndexFunc(s.Outcomes, l.belongsTo)
	if i < 0 {
		i = len(s.Outcomes)
		s.Outcomes = append(s.Outcomes, Outcome{Verdict: l.verdict, Masquerade: l.masquerade, Why: l.why, How: l.how, By: l.by, Because: l.because})
	}
	o := &s.Outcomes[i]
	o.Probability += l.probability
	if !l.verdict.Arrives() {
		return
	}
	same := func(e Endpoint) bool { return e.Address == l.endpoint.Address && e.Source == l.endpoint.Source }
	if j := slices.IndexFunc(o.Endpoints, same); j >= 0 {
		o.Endpoints[j].Probability += l.probability
		return
	}
	o.Endpoints = append(o.Endpoints, l.endpoint)
}

func (l leaf) belongsTo(o Outcome) bool {
	sameBy := l.by == nil && o.By == nil || l.by != nil && o.By != nil && *l.by == *o.By
	return l.verdict == o.Verdict && l.masquerade == o.Masquerade && l.why == o.Why && l.how == o.How && l.because == o.Because && sameBy
}

// union adds what is new.
func union(all, more []string) []string {
	for _, s := range more {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
