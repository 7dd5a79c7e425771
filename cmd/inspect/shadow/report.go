package shadow

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/output"
)

// A Report is the result of comparing everything once.
type Report struct {
	Mode string `json:"mode"` // of kube-proxy
	// Dormant are the families in which kube-proxy's rules exist, but see no packets now.
	Dormant   []string `json:"dormant,omitempty"`
	Services  int      `json:"services"` // ports of Services
	Frontends int      `json:"frontends"`
	Packets   int      `json:"packets"`
	// Differences are sorted by Service. More is how many were found in addition, but for intended ones.
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
			return o.key() == d.key() && o.Ours == d.Ours && o.Theirs == d.Theirs
		})
		if i < 0 {
			all = append(all, d)
		} else if !slices.Contains(all[i].Clients, d.Clients[0]) {
			all[i].Clients = append(all[i].Clients, d.Clients...)
		}
	}
	room := min(len(all), maxDifferences-len(r.Differences))
	r.Differences = append(r.Differences, all[:room]...)
	isIntended := func(d Difference) bool { return d.Intended != "" }
	r.More += len(slices.DeleteFunc(all[room:], isIntended))
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

// counting returns how many differences are not on purpose, and of how many that is not known.
func (r *Report) counting() (n, unknown int) {
	n = r.More
	for _, d := range r.Differences {
		if d.Intended != "" {
			continue
		}
		if n++; d.Kind == KindUnknown {
			unknown++
		}
	}
	return n, unknown
}

// exitCode returns the exit code of kube-vmap shadow --once: 0 if there are only intended
// differences, 1 if there are others, 2 if that is not certain.
func (r *Report) exitCode() int {
	switch n, unknown := r.counting(); {
	case n > unknown:
		return 1
	case unknown+r.Pending > 0:
		return exit.Trouble
	}
	return 0
}

// Print prints the report as a table or as JSON, and returns the error with its exit code.
func (r *Report) Print(w io.Writer, format string) error {
	write := r.writeText
	if format == "json" {
		write = func(w io.Writer) error { return output.Write(w, format, r) }
	}
	err := write(w)
	if code := r.exitCode(); err == nil && code != 0 {
		err = &exit.Error{Code: code}
	}
	return err
}

func (r *Report) writeText(w io.Writer) error {
	out := bufio.NewWriter(w)
	rows := [][]string{{"SERVICE", "FRONTEND", "DIFFERENCE", "CLIENTS", "KUBE-VMAP", "KUBE-PROXY", "INTENDED"}}
	for _, d := range r.Differences {
		frontend := d.Frontend
		if strings.HasPrefix(frontend, "*") { // a node port
			frontend += " (" + d.Family + ")"
		}
		rows = append(rows, []string{
			cmp.Or(d.Service, "<none>"), frontend, d.Kind, strings.Join(d.Clients, ","), d.Ours, d.Theirs,
			cmp.Or(d.Intended, "<no>"),
		})
	}
	if len(rows) > 1 {
		_ = output.Print(out, rows) // out keeps the error
		fmt.Fprintln(out)
	}
	counted, _ := r.counting()
	fmt.Fprintf(out, "compared with kube-proxy (%s): %d Service ports, %d addresses, %d packets; %d differences\n",
		r.Mode, r.Services, r.Frontends, r.Packets, counted)
	if r.More > 0 {
		fmt.Fprintf(out, "not listed: %d more\n", r.More)
	}
	if r.Pending > 0 {
		fmt.Fprintf(out, "not confirmed, because they change: %d\n", r.Pending)
	}
	for _, f := range r.Dormant {
		fmt.Fprintf(out, "kube-proxy's rules for %s are dormant or suspended; they were compared as if they were in effect\n",
			f)
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Intended)) {
		fmt.Fprintf(out, "intended: %d x %s\n", r.Intended[reason], reason)
	}
	return out.Flush()
}
