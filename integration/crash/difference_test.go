package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shown is how many lines of a difference are reported.
const shown = 40

// difference returns the lines that only one of two texts has, whatever their order; empty
// if there are none.
func difference(want, have string) string {
	lines := map[string]int{}
	for line := range strings.Lines(want) {
		lines[line]--
	}
	for line := range strings.Lines(have) {
		lines[line]++
	}
	maps.DeleteFunc(lines, func(_ string, n int) bool { return n == 0 })
	var out strings.Builder
	for i, line := range slices.Sorted(maps.Keys(lines)) {
		if i == shown {
			fmt.Fprintf(&out, "and %d more lines\n", len(lines)-shown)
			break
		}
		fmt.Fprintf(&out, "%+d %s", lines[line], line)
	}
	return out.String()
}
