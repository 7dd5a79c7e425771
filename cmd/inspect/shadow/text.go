package shadow

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"kube-vmap/cmd/inspect/exit"
)

// A Report is what is printed of one comparison.
type Report struct {
	Round
	// Intended is how many differences are on purpose, by their reason.
	Intended map[string]int `json:"intended"`
	// Pending is how many differences were not confirmed.
	Pending int `json:"pending"`
}

// NewReport returns the report of confirmed differences. Intended ones are only counted,
// unless all is set.
func NewReport(r *Round, confirmed []Difference, pending int, all bool) Report {
	out := Report{Round: *r, Intended: map[string]int{}, Pending: pending}
	out.Differences = []Difference{}
	for _, d := range confirmed {
		if d.Intended != "" {
			out.Intended[reason(d)]++
		}
		if d.Intended == "" || all {
			out.Differences = append(out.Differences, d)
		}
	}
	return out
}

// reason returns why a difference is intended, without names of Services.
func reason(d Difference) string {
	before, _, _ := strings.Cut(d.Intended, ":")
	return before
}

// ExitCode returns the exit code of kube-vmap shadow --once: 0 if there are only intended
// differences, 1 if there are others, 2 if that is not certain.
func (r *Report) ExitCode() int {
	uncertain := r.Pending > 0
	for _, d := range r.Differences {
		switch {
		case d.Intended != "":
		case d.Kind == KindUnknown:
			uncertain = true
		default:
			return 1
		}
	}
	switch {
	case r.More > 0:
		return 1
	case uncertain:
		return exit.Trouble
	}
	return 0
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report as a table and a summary.
func (r *Report) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	if len(r.Differences) > 0 {
		t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		_, _ = fmt.Fprintln(t, "SERVICE\tFRONTEND\tDIFFERENCE\tCLIENTS\tKUBE-VMAP\tKUBE-PROXY\tINTENDED")
		for _, d := range r.Differences {
			_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(d.Service, "<none>"), d.frontendText(), d.Kind,
				strings.Join(d.Clients, ","), d.Ours, d.Theirs, cmp.Or(d.Intended, "<no>"))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	r.writeSummary(out)
	return out.Flush()
}

// frontendText returns the frontend, with the family of node ports.
func (d *Difference) frontendText() string {
	if strings.HasPrefix(d.Frontend, "*") {
		return d.Frontend + " (" + d.Family + ")"
	}
	return d.Frontend
}

func (r *Report) writeSummary(w *bufio.Writer) {
	counted := 0
	for _, d := range r.Differences {
		if d.Intended == "" {
			counted++
		}
	}
	fmt.Fprintf(w, "compared with kube-proxy (%s): %d Service ports, %d addresses, %d packets; %d differences\n",
		r.Mode, r.Services, r.Frontends, r.Packets, counted+r.More)
	if r.More > 0 {
		fmt.Fprintf(w, "not listed: %d more\n", r.More)
	}
	if r.Pending > 0 {
		fmt.Fprintf(w, "not confirmed, because they change: %d\n", r.Pending)
	}
	for _, f := range r.Dormant {
		fmt.Fprintf(w, "kube-proxy's rules for %s are dormant or suspended; they were compared as if they were in effect\n", f)
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Intended)) {
		fmt.Fprintf(w, "intended: %d x %s\n", r.Intended[reason], reason)
	}
}
