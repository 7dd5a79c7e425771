package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// clockLayout is the format of times, which are of the same day, in local time.
const clockLayout = "15:04:05"

// Separator separates the parts of a line.
const Separator = "  "

// SourceText returns the source and time of the numbers.
func (s *Sheet) SourceText() string {
	parts := []string{"kube-vmap top"}
	if s.nodes > 1 {
		return strings.Join(append(parts, fmt.Sprintf("%d nodes", s.nodes), s.time.Local().Format(clockLayout)), Separator)
	}
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
	return strings.Join(parts, Separator)
}

// Totals returns the totals of the rows; what is what they are.
func (s *Sheet) Totals(what string) string {
	parts := []string{fmt.Sprintf("%d %s", len(s.rows), what)}
	if what == "" {
		parts = nil
	}
	if s.counted {
		parts = append(parts, rateText(s.total.rate, s.rated)+" conn/s")
	}
	parts = append(parts, strconv.Itoa(s.total.active)+" active")
	if s.fastPath {
		parts = append(parts, strconv.Itoa(s.total.fastPath)+" on the fast path")
	}
	if s.counted {
		parts = append(parts, strconv.FormatUint(s.total.connections, 10)+" connections")
	}
	return strings.Join(append(parts, s.problemCounts(what)...), Separator)
}

// problemCounts returns the numbers of Services with problems and of problems of other objects,
// see [status.Summary]; or the state of one Service.
func (s *Sheet) problemCounts(what string) (out []string) {
	if what == "" {
		return slices.DeleteFunc([]string{s.state}, func(state string) bool { return state == "" })
	}
	n := s.summary
	switch {
	case n.Problems > 0:
		out = append(out, fmt.Sprintf("%s%d with problems", wrong, n.Problems))
	case n.Others == 0:
		out = append(out, "no problems")
	}
	if n.Notices > 0 {
		out = append(out, fmt.Sprintf("%d with notices", n.Notices))
	}
	switch n.Others {
	case 0:
	case 1:
		out = append(out, wrong+"1 problem of other objects")
	default:
		out = append(out, fmt.Sprintf("%s%d problems of other objects", wrong, n.Others))
	}
	return out
}

// Warnings returns what the numbers do not include.
func (s *Sheet) Warnings() []string {
	out := summarizeAlarms(s.alarms)
	if !s.ready {
		out = append(out, "! not ready: the first state is not programmed yet")
	}
	if !s.counted {
		out = append(out, "! connections are not counted (--count-connections=false): active ones only")
	}
	return out
}

// maxAlarms is how many nodes that do not answer are named.
const maxAlarms = 3

// summarizeAlarms returns lines about nodes, of which there may be many.
func summarizeAlarms(all []string) (out []string) {
	for _, a := range all[:min(len(all), maxAlarms)] {
		out = append(out, wrong+a)
	}
	if more := len(all) - maxAlarms; more > 0 {
		out = append(out, fmt.Sprintf("%sand %d more nodes", wrong, more))
	}
	return out
}

// ErrorText returns the line about a failed query.
func ErrorText(err error, at time.Time) string {
	return "! " + at.Local().Format(clockLayout) + " " + Clean(err.Error())
}
