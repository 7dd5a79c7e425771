package simulate

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"kube-vmap/nft/foreign/simulate/path"
)

// A summary merges leaves into a result, and keeps of each only what the result shows.
type summary struct {
	*Result
	stepGroups stepGroups
	seen       float64 // probability of all leaves so far
	incomplete bool    // there are more walks
}

// add adds a leaf. Of one that assumes an undecided match, only whether it differs counts.
func (s *summary) add(l leaf, c *choices) {
	c.addResult(l.key())
	s.Doubts = union(s.Doubts, l.doubts)
	if !c.isMain() {
		return
	}
	s.countUnexplored(c)
	s.Service = cmp.Or(s.Service, l.notes.Service)
	s.Kind = cmp.Or(s.Kind, l.notes.Kind)
	s.Affinity = cmp.Or(s.Affinity, l.notes.Affinity)
	s.Faults = union(s.Faults, l.notes.Faults)
	s.addToOutcome(l)
	s.stepGroups.add(l)
	s.seen += l.probability
}

func (s *summary) countUnexplored(c *choices) {
	for _, made := range c.made {
		if made.total <= made.explored {
			continue
		}
		s.incomplete = true
		if made.own {
			s.Unexplored.Endpoints = max(s.Unexplored.Endpoints, int(made.total-made.explored))
		} else {
			s.Unexplored.OthersPick = true
		}
	}
}

func (s *summary) finish(c *choices) {
	s.Steps = s.stepGroups.merge()
	for _, d := range c.doubts {
		s.Doubts = addDoubt(s.Doubts, d)
	}
	if c.stopped {
		s.incomplete, s.Unexplored.OthersPick = true, true
	}
	if s.incomplete {
		s.Unexplored.Probability = 1 - s.seen
	}
	for i := range s.Outcomes {
		list := s.Outcomes[i].Endpoints
		slices.SortStableFunc(list, func(a, b path.Endpoint) int { return cmp.Compare(b.Probability, a.Probability) })
	}
	slices.SortStableFunc(s.Outcomes, func(a, b path.Outcome) int { return cmp.Compare(b.Probability, a.Probability) })
}

// An outcomeKey is the part of a leaf that shows whether an undecided match has an effect.
type outcomeKey struct {
	verdict  string
	how      string
	endpoint path.Endpoint
}

func (l leaf) key() outcomeKey {
	k := outcomeKey{verdict: l.verdict, how: l.how}
	if path.Arrives(l.verdict) {
		k.endpoint = l.endpoint
		k.endpoint.Probability = 0
	}
	return k
}

func (s *summary) addToOutcome(l leaf) {
	i := slices.IndexFunc(s.Outcomes, l.matchesOutcome)
	if i < 0 {
		i = len(s.Outcomes)
		s.Outcomes = append(s.Outcomes, path.Outcome{
			Verdict: l.verdict, Masquerade: l.masquerade, Why: l.notes.Why, How: l.how,
			By: l.by, Reason: l.notes.Reason, Fault: l.notes.Fault,
			NoEndpoint: l.notes.NoEndpoint,
		})
	}
	o := &s.Outcomes[i]
	o.Probability += l.probability
	if !o.Arrives() {
		o.Stopped = union(o.Stopped, []netip.AddrPort{l.endpoint.AddrPort()})
		return
	}
	same := func(e path.Endpoint) bool {
		return e.AddrPort() == l.endpoint.AddrPort() && e.Sees == l.endpoint.Sees && e.Reply == l.endpoint.Reply
	}
	if j := slices.IndexFunc(o.Endpoints, same); j >= 0 {
		e := &o.Endpoints[j]
		if e.Probability += l.probability; e.Out != l.endpoint.Out || e.NextHop != l.endpoint.NextHop {
			e.Out, e.NextHop = "", netip.Addr{}
		}
		return
	}
	o.Endpoints = append(o.Endpoints, l.endpoint)
}

func (l leaf) matchesOutcome(o path.Outcome) bool {
	return l.verdict == o.Verdict && l.masquerade == o.Masquerade && l.notes.Why == o.Why && l.how == o.How &&
		l.notes.Reason == o.Reason && l.notes.Fault == o.Fault && l.by == o.By
}

func union[T comparable](all, more []T) []T {
	for _, s := range more {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// stepGroups are walks grouped by their kind: the steps that all of them begin with, and
// for each kind the steps of one walk.
type stepGroups struct {
	common []path.Step
	groups []*stepGroup
	byKey  map[string]*stepGroup
}

// A stepGroup is the first walk of its kind, and the destinations of the others: walks to
// the same endpoint may be many, where a table has it more than once.
type stepGroup struct {
	steps   []path.Step
	to      netip.AddrPort
	similar map[netip.AddrPort]bool
}

func (s *stepGroups) add(l leaf) {
	name := groupKey(l)
	if known := s.byKey[name]; known != nil {
		if to := l.endpoint.AddrPort(); to != known.to {
			known.similar[to] = true
		}
	} else {
		fresh := &stepGroup{steps: l.notes.Steps, to: l.endpoint.AddrPort(), similar: map[netip.AddrPort]bool{}}
		if s.groups == nil {
			s.common, s.byKey = l.notes.Steps, map[string]*stepGroup{}
		}
		s.groups, s.byKey[name] = append(s.groups, fresh), fresh
	}
	n := 0
	for n < min(len(s.common), len(l.notes.Steps)) && s.common[n] == l.notes.Steps[n] {
		n++
	}
	s.common = s.common[:n]
}

func (s *stepGroups) merge() []path.Step {
	out := append([]path.Step(nil), s.common...)
	for _, one := range s.groups {
		for _, step := range one.steps[len(s.common):] {
			step.Endpoint, step.Similar = one.to.String(), len(one.similar)
			out = append(out, step)
		}
	}
	return out
}

// groupKey returns what is the same for walks that differ only by the endpoint: verdict,
// hooks and chains, without digits. Steps that all walks have in common make no difference.
func groupKey(l leaf) string {
	var b strings.Builder
	b.WriteString(l.verdict)
	for _, s := range l.notes.Steps {
		b.WriteString(" " + s.Hook + "/")
		for _, r := range s.Chain {
			if !unicode.IsDigit(r) {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}

// A Result is the simulated path of a packet and its outcomes.
type Result struct {
	Packet Packet
	// In is the interface that the packet comes in by; empty if the node sends it.
	In string
	// ClientVia is the next hop towards the client; invalid if the client is on a link of
	// the node, or the node itself.
	ClientVia netip.Addr
	// ToNode is true if the destination is an address of the node itself.
	ToNode bool
	// Service, Kind and Steps are noted, of all walks together, and so are Affinity and Faults.
	Service, Kind string
	Steps         []path.Step
	Affinity      *path.Affinity
	Faults        []string
	// Outcomes are the possible outcomes, the most probable first. There are several only
	// if something was picked.
	Outcomes []path.Outcome
	// Unexplored is what was not simulated.
	Unexplored path.Unexplored
	// Flow is the connection that the packet belongs to; nil if it begins one. Flows are
	// other connections of the client to the same address and port.
	Flow  *Flow
	Flows []Flow
	// IfNew is set with Flow: the outcomes of a packet that begins a new connection.
	IfNew           []path.Outcome
	IfNewUnexplored path.Unexplored
	Doubts          []Doubt
	// NotFollowed names rules that packets pass and that the simulation does not know.
	NotFollowed []string
}
