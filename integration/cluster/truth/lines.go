package truth

import (
	"fmt"
	"strings"
)

// maxLines is how many lines of a difference are printed.
const maxLines = 60

// difference returns the lines that are only in want, with - before them, and those only
// in have, with +. Indented lines are printed with the block that they belong to.
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

// unfold prefixes each line with its table, and each indented line also with its block.
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
			// The shape of a set is no part of its name.
			above, _, _ = strings.Cut(line, " {")
			lines[i] = table + " " + line
		}
	}
	return lines
}
