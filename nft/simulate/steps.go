package simulate

import (
	"net/netip"
	"strings"
	"unicode"
)

// stepGroups are walks grouped by their kind: the steps that all of them begin with, and
// for each kind the steps of one walk.
type stepGroups struct {
	common []Step
	groups []*stepGroup
	byKey  map[string]*stepGroup
}

// A stepGroup is the first walk of its kind, and the destinations of the others: walks to
// the same endpoint may be many, where a table has it more than once.
type stepGroup struct {
	steps   []Step
	to      netip.AddrPort
	similar map[netip.AddrPort]bool
}

func (s *stepGroups) add(l leaf) {
	name := groupKey(l)
	if known := s.byKey[name]; known != nil {
		if l.endpoint.Address != known.to {
			known.similar[l.endpoint.Address] = true
		}
	} else {
		fresh := &stepGroup{steps: l.steps, to: l.endpoint.Address, similar: map[netip.AddrPort]bool{}}
		if s.groups == nil {
			s.common, s.byKey = l.steps, map[string]*stepGroup{}
		}
		s.groups, s.byKey[name] = append(s.groups, fresh), fresh
	}
	n := 0
	for n < min(len(s.common), len(l.steps)) && s.common[n] == l.steps[n] {
		n++
	}
	s.common = s.common[:n]
}

func (s *stepGroups) merge() []Step {
	out := append([]Step(nil), s.common...)
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
	b.WriteString(l.verdict.String())
	for _, s := range l.steps {
		b.WriteString(" " + s.Hook + "/")
		for _, r := range s.Chain {
			if !unicode.IsDigit(r) {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}
