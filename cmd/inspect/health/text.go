package health

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// Write writes the health of a document as text.
func Write(w io.Writer, d *status.Document) error {
	problems := d.NodeProblems()
	if _, err := fmt.Fprintf(w, "%s: kube-vmap %s, %s\n", d.Node, d.Version, verdict(d, problems)); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 4, 3, ' ', 0)
	for _, p := range problems {
		_, _ = fmt.Fprintf(t, "  %s\t%s\n", strings.ToUpper(p.Severity), p.Text) // Flush returns the error
	}
	for _, row := range rows(d) {
		_, _ = fmt.Fprintf(t, "  %s\t%s\n", row[0], row[1])
	}
	return t.Flush()
}

// verdict returns in words whether the process does its work.
func verdict(d *status.Document, all []status.NodeProblem) string {
	if hasProblems(d) {
		return "with problems"
	}
	if len(all) > 0 {
		return "healthy, with notices"
	}
	return "healthy"
}

// hasProblems reports whether there is more than notices.
func hasProblems(d *status.Document) bool {
	return slices.ContainsFunc(d.NodeProblems(), func(p status.NodeProblem) bool { return p.Severity == status.SeverityProblem })
}

// rows returns the facts, whether or not they are problems.
func rows(d *status.Document) [][2]string {
	h := d.Health
	out := [][2]string{
		{"running", "since " + at(d, h.Started)},
		{"objects", objects(h)},
		{"last sync", orNone(at(d, h.Sync.Last))},
		{"refused", fmt.Sprintf("%d Service ports by the kernel, %d objects unusable, %d addresses and ports held by other Services",
			h.Refused.Ports, h.Refused.Objects, h.Refused.Conflicts)},
		{"repairs", count(d, h.Repairs)},
		{"tables", tables(h)},
		{"warnings", count(d, h.Warnings)},
		{"take-over", strings.TrimSuffix(h.Takeover.State+": "+h.Takeover.Text, ": ")},
	}
	if h.FastPath != nil {
		out = append(out, [2]string{"fast path", fastPath(h.FastPath)})
	}
	return out
}

// fastPath returns which connections take the fast path, or why none does.
func fastPath(f *status.FastPath) string {
	if !f.On {
		return strings.TrimSuffix("off: "+f.Reason, ": ")
	}
	return fmt.Sprintf("on for TCP and UDP to Services, after %d packets of a connection; %s",
		f.AfterPackets, status.Plural(f.Interfaces, "interface"))
}

// objects returns where objects come from, and how far they were followed.
func objects(h *status.Health) string {
	var newest []string
	for _, p := range h.Positions {
		newest = append(newest, p.Kind+" "+orNone(p.ResourceVersion))
	}
	if len(newest) == 0 {
		return h.Source
	}
	return h.Source + "; newest resource versions: " + strings.Join(newest, ", ")
}

func tables(h *status.Health) string {
	var out []string
	for _, t := range h.Tables {
		out = append(out, t.Family+" "+strings.ToLower(t.State))
	}
	return orNone(strings.Join(out, ", "))
}

// count returns how often something happened, and the last time.
func count(d *status.Document, c status.Count) string {
	if c.Count == 0 {
		return "none since the start"
	}
	return fmt.Sprintf("%d since the start, last %s", c.Count, at(d, c.Last))
}

// at returns a time and how long before the document that was; empty for the zero time.
func at(d *status.Document, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339) + " (" + status.Duration(d.Time.Sub(t)) + " ago)"
}

// orNone returns a text, or that there is none.
func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
