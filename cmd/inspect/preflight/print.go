package preflight

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"kube-vmap/cmd/inspect/output"
)

var formats = output.Formats{"wide", "json"}

// Print writes the report as a table, or as JSON.
func (r *Report) Print(w io.Writer, format string) error {
	if format == "json" {
		return output.Write(w, format, r)
	}
	t := tabwriter.NewWriter(w, 6, 4, 3, ' ', 0)
	_, _ = fmt.Fprintln(t, "NAME\tVERDICT\tEVIDENCE\tDETAIL\tSEE") // Flush returns the error
	for _, i := range r.Items {
		_, _ = fmt.Fprintln(t, strings.Join([]string{
			i.Name, string(i.Verdict), cell(i.evidence(format == "wide")), cell(i.Detail), cell(i.See),
		}, "\t"))
	}
	return t.Flush()
}

// evidence returns the first evidence and the number of others, or all.
func (i *Item) evidence(all bool) string {
	if more := len(i.Evidence) - 1; more > 0 && !all {
		return fmt.Sprintf("%s + %d more", i.Evidence[0], more)
	}
	return strings.Join(i.Evidence, "; ")
}

// cell returns a text on one line, as kubectl prints it.
func cell(text string) string {
	if text == "" {
		return "-"
	}
	return strings.NewReplacer("\n", "; ", "\t", " ").Replace(text)
}
