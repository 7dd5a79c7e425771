package simulate

import (
	"cmp"
	"slices"
)

// A summary merges leaves into a result, and keeps of each only what the result shows.
type summary struct {
	*Result
	stepGroups stepGroups
	seen       float64 // probability of all leaves so far
	incomplete bool    // there are more walks
	brief      bool    // without steps
}

// add adds a leaf. Of one that assumes an undecided match, only whether it differs counts.
func (s *summary) add(l leaf, c *choices) {
	c.addResult(l.key())
	s.Doubts = union(s.Doubts, l.doubts)
	if !c.isMain() {
		return
	}
	s.countUnexplored(c)
	s.Service = cmp.Or(s.Service, l.service)
	s.Kind = cmp.Or(s.Kind, l.kind)
	s.Affinity = cmp.Or(s.Affinity, l.affinity)
	s.Faults = union(s.Faults, l.faults)
	s.addToOutcome(l)
	if !s.brief {
		s.stepGroups.add(l)
	}
	s.seen += l.probability
}

func (s *summary) countUnexplored(c *choices) {
	for _, made := range c.made {
		if made.total <= made.explored {
			continue
		}
		s.incomplete = true
		if made.ours {
			s.Unexplored.Endpoints = max(s.Unexplored.Endpoints, int(made.total-made.explored))
		} else {
			s.Unexplored.OtherPrograms = true
		}
	}
}

func (s *summary) finish(c *choices) {
	s.Steps = s.stepGroups.merge()
	for _, d := range c.doubts {
		s.Doubts = addDoubt(s.Doubts, d)
	}
	if c.stopped {
		s.incomplete, s.Unexplored.OtherPrograms = true, true
	}
	if s.incomplete {
		s.Unexplored.Probability = 1 - s.seen
	}
	for i := range s.Outcomes {
		list := s.Outcomes[i].Endpoints
		slices.SortStableFunc(list, func(a, b Endpoint) int { return cmp.Compare(b.Probability, a.Probability) })
	}
	slices.SortStableFunc(s.Outcomes, func(a, b Outcome) int { return cmp.Compare(b.Probability, a.Probability) })
}

// An outcomeKey is the part of a leaf that shows whether an undecided match has an effect.
type outcomeKey struct {
	verdict  Verdict
	how      string
	endpoint Endpoint
}

func (l leaf) key() outcomeKey {
	k := outcomeKey{verdict: l.verdict, how: l.how}
	if l.verdict.Arrives() {
		k.endpoint = l.endpoint
		k.endpoint.Probability = 0
	}
	return k
}

func (s *summary) addToOutcome(l leaf) {
	i := slices.IndexFunc(s.Outcomes, l.matchesOutcome)
	if i < 0 {
		i = len(s.Outcomes)
		s.Outcomes = append(s.Outcomes, Outcome{
			Verdict: l.verdict, Masquerade: l.masquerade, Why: l.why, How: l.how,
			By: l.by, Because: l.because,
		})
	}
	o := &s.Outcomes[i]
	o.Probability += l.probability
	if !l.verdict.Arrives() {
		if !s.brief && !slices.Contains(o.Stopped, l.endpoint.Address) {
			o.Stopped = append(o.Stopped, l.endpoint.Address)
		}
		return
	}
	same := func(e Endpoint) bool {
		return e.Address == l.endpoint.Address && e.Source == l.endpoint.Source && e.Reply == l.endpoint.Reply
	}
	if j := slices.IndexFunc(o.Endpoints, same); j >= 0 {
		o.Endpoints[j].Probability += l.probability
		return
	}
	o.Endpoints = append(o.Endpoints, l.endpoint)
}

func (l leaf) matchesOutcome(o Outcome) bool {
	return l.verdict == o.Verdict && l.masquerade == o.Masquerade && l.why == o.Why && l.how == o.How &&
		l.because == o.Because && l.by == o.By
}

func union[T comparable](all, more []T) []T {
	for _, s := range more {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
