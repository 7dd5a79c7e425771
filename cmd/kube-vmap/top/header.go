package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"kube-vmap/sync/status"
)

// clockLayout is how times are shown: of the same day, in local time.
const clockLayout = "15:04:05"

// between stands between the parts of a line.
const between = "  "

// identity says whose numbers they are, and of when.
func (s *sheet) identity() string {
	parts := []string{"kube-vmap top"}
	if s.node != "" {
		parts = append(parts, "node "+s.node)
	}
	if s.version != "" {
		parts = append(parts, "version "+s.version)
	}
	from := "from the " + s.source
	if s.source == status.FromKernel {
		from = "from the kernel: no process runs"
	}
	parts = append(parts, from, s.time.Local().Format(clockLayout))
	return strings.Join(parts, between)
}

// sums says what the rows come to, as many as there are of what.
func (s *sheet) sums(what string) string {
	parts := []string{fmt.Sprintf("%d %s", len(s.rows), what)}
	if what == "" {
		parts = nil
	}
	if s.counted {
		parts = append(parts, rateText(s.total.rate, s.rated)+" conn/s")
	}
	parts = append(parts, strconv.Itoa(s.total.active)+" active")
	if s.counted {
		parts = append(parts, strconv.FormatUint(s.total.connections, 10)+" connections")
	}
	return strings.Join(append(parts, s.troubles(what)...), between)
}

// troubles counts what has a mark: Services, or what is wrong with one and its parts.
// Objects that have no row are counted apart.
func (s *sheet) troubles(what string) (out []string) {
	if what == "" {
		out = some(out, s.marked+len(s.notes), "problem", "problems")
	} else {
		out = some(out, s.marked, "with problems", "with problems")
		out = some(out, s.others, "problem of other objects", "problems of other objects")
	}
	if out == nil {
		return []string{"no problems"}
	}
	return out
}

// some adds how many there are, if any.
func some(list []string, n int, one, many string) []string {
	switch n {
	case 0:
		return list
	case 1:
		return append(list, wrong+"1 "+one)
	}
	return append(list, fmt.Sprintf("%s%d %s", wrong, n, many))
}

// warnings say what the numbers lack.
func (s *sheet) warnings() []string {
	var out []string
	if !s.ready {
		out = append(out, "! not ready: the first state is not programmed yet")
	}
	if !s.counted {
		out = append(out, "! connections are not counted (--count-connections=false): active ones only")
	}
	return out
}

// troubleText says that an answer did not come.
func troubleText(err error, at time.Time) string {
	return "! " + at.Local().Format(clockLayout) + " " + clean(err.Error())
}
