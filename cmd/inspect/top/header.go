package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/status"
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

// troubles counts the Services with problems, and the problems of objects that have no
// row; see [status.Summary]. Of one Service it is the state.
func (s *sheet) troubles(what string) (out []string) {
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
