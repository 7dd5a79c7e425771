package simulate

import (
	"net/netip"
	"strings"
	"unicode"
)

// stepGroups are the ways by what they have in common: the first steps of all of them, and
// then, for each sort of way that it goes on, one of that sort.
type stepGroups struct {
	common []Step
	groups []*stepGroup
	byKey  map[string]*stepGroup
}

// stepGroup is the first way of its sort, and to which others ways lead that are like it: to
// one endpoint there may be many, where a table has it more than once.
type stepGroup struct {
	steps   []Step
	to      netip.AddrPort
	similar map[netip.AddrPort]bool
}

// add adds a way.
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

// merge puts the ways together.
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

// groupKey is what is the same for ways that differ only by the endpoint: hooks and
// chains, but for their numbers, and what becomes of the packet. Steps that all ways have
// in common are the same for all, and make no difference.
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
