package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

// Write writes the health of a document as text.
func Write(w io.Writer, d *nodestatus.Document) error {
	problems := findings.OfNode(d)
	if _, err := fmt.Fprintf(w, "%s: kube-vmap %s, %s\n", d.Node, d.Version, verdict(d, problems)); err != nil {
		return err
	}
	var all [][]string
	for i := range problems {
		all = append(all, []string{"  " + strings.ToUpper(problems[i].Severity), problems[i].Sentence()})
	}
	return output.Print(w, append(all, rows(d)...))
}

// verdict returns in words whether the process does its work.
func verdict(d *nodestatus.Document, all []findings.Finding) string {
	if hasProblems(d) {
		return "with problems"
	}
	if len(all) > 0 {
		return "healthy, with notices"
	}
	return "healthy"
}

// hasProblems reports whether there is more than notices.
func hasProblems(d *nodestatus.Document) bool {
	return slices.ContainsFunc(findings.OfNode(d), func(f findings.Finding) bool { return f.IsProblem() })
}

// rows returns the facts, whether or not they are problems.
func rows(d *nodestatus.Document) [][]string {
	h := d.Health
	out := [][]string{
		{"  running", "since " + at(d, h.Started)},
		{"  objects", objects(h)},
		{"  last sync", cmp.Or(at(d, h.Sync.Last), "none")},
		{"  refused", fmt.Sprintf("%d Service ports by the kernel, %d objects unusable, %d addresses and ports held by "+
			"other Services",
			h.Refused.Ports, h.Refused.Objects, h.Refused.Conflicts)},
		{"  repairs", count(d, h.Repairs)},
		{"  tables", tables(h)},
		{"  warnings", count(d, h.Warnings)},
		{"  take-over", strings.TrimSuffix(h.Takeover.State+": "+h.Takeover.Text, ": ")},
	}
	if h.FastPath != nil {
		out = append(out, []string{"  fast path", fastPath(h.FastPath)})
	}
	return out
}

// fastPath returns which connections take the fast path, or why none does.
func fastPath(f *nodestatus.FastPath) string {
	if !f.On {
		return strings.TrimSuffix("off: "+f.Reason, ": ")
	}
	return fmt.Sprintf("on for TCP and UDP to Services, after %d packets of a connection; %s",
		f.AfterPackets, nodestatus.Plural(f.Interfaces, "interface"))
}

// objects returns where objects come from, and how far they were followed.
func objects(h *nodestatus.Health) string {
	var newest []string
	for _, p := range h.Positions {
		newest = append(newest, p.Kind+" "+cmp.Or(p.ResourceVersion, "none"))
	}
	if len(newest) == 0 {
		return h.Source
	}
	return h.Source + "; newest resource versions: " + strings.Join(newest, ", ")
}

func tables(h *nodestatus.Health) string {
	var out []string
	for _, t := range h.Tables {
		out = append(out, t.Family+" "+strings.ToLower(t.State))
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

// count returns how often something happened, and the last time.
func count(d *nodestatus.Document, c nodestatus.Count) string {
	if c.Count == 0 {
		return "none since the start"
	}
	return fmt.Sprintf("%d since the start, last %s", c.Count, at(d, c.Last))
}

// at returns a time and how long before the document that was; empty for the zero time.
func at(d *nodestatus.Document, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339) + " (" + nodestatus.Duration(d.Time.Sub(t)) + " ago)"
}
