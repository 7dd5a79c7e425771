package explain

import (
	"strings"
	"unicode"
)

// steps puts the ways together: what all have in common, and then, for each sort of
// way that it goes on, one of that sort.
func steps(leaves []leaf) []Step {
	common := 0
	for ; all(leaves, common); common++ {
	}
	out := append([]Step(nil), leaves[0].steps[:common]...)
	if len(leaves) == 1 {
		return out
	}
	first := map[string]int{}
	var sorts []string
	alike := map[string]int{}
	for i, l := range leaves {
		sort := sortOf(l, common)
		if _, known := first[sort]; !known {
			first[sort] = i
			sorts = append(sorts, sort)
		}
		alike[sort]++
	}
	for _, sort := range sorts {
		l := leaves[first[sort]]
		for _, s := range l.steps[common:] {
			s.For, s.Alike = l.endpoint.Address.String(), alike[sort]-1
			out = append(out, s)
		}
	}
	return out
}

// all reports whether all ways have the same step there.
func all(leaves []leaf, at int) bool {
	for _, l := range leaves {
		if at >= len(l.steps) || l.steps[at] != leaves[0].steps[at] {
			return false
		}
	}
	return true
}

// sortOf is what is the same for ways that differ only by the endpoint: hooks and
// chains, but for their numbers, and what becomes of the packet.
func sortOf(l leaf, from int) string {
	var b strings.Builder
	b.WriteString(l.verdict.String())
	for _, s := range l.steps[from:] {
		b.WriteString(" " + s.Hook + "/")
		for _, r := range s.Chain {
			if !unicode.IsDigit(r) {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}
