package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// outputs are the values of --output.
var outputs = []string{"", "wide", "json"}

// Print writes the report as a table, or as JSON.
func (r *Report) Print(w io.Writer, output string) error {
	if output == "json" {
		text, err := json.MarshalIndent(r, "", "    ")
		if err != nil {
			return fmt.Errorf("write json: %w", err)
		}
		_, err = fmt.Fprintln(w, string(text))
		return err
	}
	t := tabwriter.NewWriter(w, 6, 4, 3, ' ', 0)
	_, _ = fmt.Fprintln(t, "NAME\tVERDICT\tEVIDENCE\tDETAIL\tSEE") // Flush returns the error
	for _, i := range r.Items {
		_, _ = fmt.Fprintln(t, strings.Join([]string{
			i.Name, string(i.Verdict), cell(i.evidence(output == "wide")), cell(i.Detail), cell(i.See),
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
