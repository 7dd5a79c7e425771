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
	"time"

	"kube-vmap/cmd/inspect/exit"
)

// A Report is the result of comparing everything once.
type Report struct {
	Mode string `json:"mode"` // of kube-proxy
	// Dormant are the families in which kube-proxy's rules exist, but see no packets now.
	Dormant   []string `json:"dormant,omitempty"`
	Services  int      `json:"services"` // ports of Services
	Frontends int      `json:"frontends"`
	Packets   int      `json:"packets"`
	// Differences are sorted by Service. More is how many were found in addition.
	Differences []Difference `json:"differences"`
	More        int          `json:"more,omitempty"`
	// Intended is how many differences are on purpose, by their reason.
	Intended map[string]int `json:"intended"`
	// Pending is how many differences were not confirmed.
	Pending int `json:"pending"`
	// Took is the time that the round took.
	Took time.Duration `json:"-"`
}

// add adds the differences of a Service. Those that only the client distinguishes are joined.
func (r *Report) add(found []Difference) {
	var all []Difference
	for _, d := range found {
		i := slices.IndexFunc(all, func(o Difference) bool {
			return o.key() == d.key() && o.Ours == d.Ours &&
				o.Theirs == d.Theirs
		})
		if i < 0 {
			all = append(all, d)
		} else if !slices.Contains(all[i].Clients, d.Clients[0]) {
			all[i].Clients = append(all[i].Clients, d.Clients...)
		}
	}
	room := min(len(all), maxDifferences-len(r.Differences))
	r.Differences = append(r.Differences, all[:room]...)
	r.More += len(all) - room
}

// countIntended counts the differences that are on purpose, and removes them unless all is set.
func (r *Report) countIntended(all bool) {
	r.Intended = map[string]int{}
	for _, d := range r.Differences {
		if d.Intended != "" {
			r.Intended[d.reason]++
		}
	}
	if !all {
		r.Differences = slices.DeleteFunc(r.Differences, func(d Difference) bool { return d.Intended != "" })
	}
	r.Differences = append([]Difference{}, r.Differences...) // [] in JSON
}

// exitCode returns the exit code of kube-vmap shadow --once: 0 if there are only intended
// differences, 1 if there are others, 2 if that is not certain.
func (r *Report) exitCode() int {
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

// Print prints the report as a table or as JSON, and returns the error with its exit code.
func (r *Report) Print(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return err
		}
	} else if err := r.writeText(w); err != nil {
		return err
	}
	if code := r.exitCode(); code != 0 {
		return &exit.Error{Code: code}
	}
	return nil
}

// writeText writes the report as a table and a summary.
func (r *Report) writeText(w io.Writer) error {
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
		fmt.Fprintf(w, "kube-proxy's rules for %s are dormant or suspended; they were compared as if they were in effect\n",
			f)
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Intended)) {
		fmt.Fprintf(w, "intended: %d x %s\n", r.Intended[reason], reason)
	}
}
