package findings

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"kube-vmap/cmd/inspect/status"
)

// Write writes the list as text, a line for each finding.
func (l *List) Write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s\n%s\n", l.summary(), NotObservedText(l.NotObserved)); err != nil {
		return err
	}
	if len(l.Findings) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 4, 3, ' ', 0)
	_, _ = fmt.Fprintln(t, "SEVERITY\tOBJECT\tREASON\tFIELD\tTEXT") // Flush returns the error
	for i := range l.Findings {
		f := &l.Findings[i]
		field := f.Field
		if field == "" {
			field = "<none>"
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", f.Severity, f.Where(), f.Reason, field, f.Text)
	}
	return t.Flush()
}

// Where returns the object with the ports concerned: "Service shop/web (http/TCP)".
func (f *Finding) Where() string {
	if len(f.Ports) == 0 {
		return f.Object
	}
	return f.Object + " (" + some(f.Ports, len(f.Ports)) + ")"
}

// summary returns how many findings there are, and of what.
func (l *List) summary() string {
	problems, notices := 0, 0
	for i := range l.Findings {
		if l.Findings[i].Severity == status.SeverityProblem {
			problems++
		} else {
			notices++
		}
	}
	text := fmt.Sprintf("%s: %s, %s about %s", l.Node, status.Plural(problems, "problem"), status.Plural(notices, "notice"), status.Plural(l.Services, "Service"))
	if problems+notices == 0 {
		text = fmt.Sprintf("%s: nothing to report about %s: each is balanced over all its ready endpoints", l.Node, status.Plural(l.Services, "Service"))
	}
	if l.ObservedSeconds > 0 {
		text += fmt.Sprintf("; responses observed for %g s", l.ObservedSeconds)
	}
	return strings.TrimPrefix(text, ": ")
}
