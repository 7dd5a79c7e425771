package truth

import (
	"fmt"
	"strings"
)

// maxLines is how many lines of a difference are said.
const maxLines = 60

// difference says which lines are only in want, with - before them, and which only
// in have, with +. Lines that are indented are said with what they belong to.
func difference(want, have string) string {
	if want == have {
		return ""
	}
	counts := map[string]int{}
	wanted, had := unfold(want), unfold(have)
	for _, line := range wanted {
		counts[line]++
	}
	for _, line := range had {
		counts[line]--
	}
	var out []string
	for _, line := range wanted {
		if counts[line] > 0 {
			counts[line]--
			out = append(out, "- "+line)
		}
	}
	for _, line := range had {
		if counts[line] < 0 {
			counts[line]++
			out = append(out, "+ "+line)
		}
	}
	if len(out) == 0 {
		return "the same lines in another order"
	}
	if more := len(out) - maxLines; more > 0 {
		out = append(out[:maxLines], fmt.Sprintf("and %d lines more", more))
	}
	return strings.Join(out, "\n")
}

// unfold puts before each line the table it is of, and before each indented line
// also what it belongs to.
func unfold(text string) []string {
	var table, above string
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "table "):
			table = strings.TrimPrefix(line, "table ")
		case strings.HasPrefix(line, "\t"):
			lines[i] = fmt.Sprintf("%s %s: %s", table, above, strings.TrimSpace(line))
		default:
			// The shape of a set is no part of what it is called.
			above, _, _ = strings.Cut(line, " {")
			lines[i] = table + " " + line
		}
	}
	return lines
}
