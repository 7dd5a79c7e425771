package simulate

import (
	"net/netip"
	"strings"
	"unicode"
)

// sorts are the ways by what they have in common: the first steps of all of them, and
// then, for each sort of way that it goes on, one of that sort.
type sorts struct {
	common []Step
	list   []*sort
	named  map[string]*sort
}

// sort is the first way of its sort, and to which others ways lead that are like it: to
// one endpoint there may be many, where a table has it more than once.
type sort struct {
	steps  []Step
	to     netip.AddrPort
	others map[netip.AddrPort]bool
}

// add adds a way.
func (s *sorts) add(l leaf) {
	name := sortOf(l)
	if known := s.named[name]; known != nil {
		if l.endpoint.Address != known.to {
			known.others[l.endpoint.Address] = true
		}
	} else {
		fresh := &sort{steps: l.steps, to: l.endpoint.Address, others: map[netip.AddrPort]bool{}}
		if s.list == nil {
			s.common, s.named = l.steps, map[string]*sort{}
		}
		s.list, s.named[name] = append(s.list, fresh), fresh
	}
	n := 0
	for n < min(len(s.common), len(l.steps)) && s.common[n] == l.steps[n] {
		n++
	}
	s.common = s.common[:n]
}

// steps puts the ways together.
func (s *sorts) steps() []Step {
	out := append([]Step(nil), s.common...)
	for _, one := range s.list {
		for _, step := range one.steps[len(s.common):] {
			step.For, step.Alike = one.to.String(), len(one.others)
			out = append(out, step)
		}
	}
	return out
}

// sortOf is what is the same for ways that differ only by the endpoint: hooks and
// chains, but for their numbers, and what becomes of the packet. Steps that all ways have
// in common are the same for all, and make no difference.
func sortOf(l leaf) string {
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
