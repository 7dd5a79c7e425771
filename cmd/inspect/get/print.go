package get

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"

	"kube-vmap/cmd/inspect/status"
)

// print writes rows in the output format.
func (o *Options) print(w io.Writer, r *resource, d *status.Document, rows []row) error {
	switch o.Output {
	case "json", "yaml":
		return o.printObjects(w, d, rows)
	case "name":
		for i := range rows {
			if _, err := fmt.Fprintf(w, "%s/%s\n", r.singular, rows[i].name); err != nil {
				return err
			}
		}
		return nil
	}
	return o.printTable(w, r, rows)
}

// printTable writes a table.
func (o *Options) printTable(w io.Writer, r *resource, rows []row) error {
	wide := o.Output == "wide"
	t := tabwriter.NewWriter(w, 6, 4, 3, ' ', 0)
	line := func(namespace string, cells, more []string) {
		if o.AllNamespaces {
			cells = append([]string{namespace}, cells...)
		}
		if wide {
			cells = append(cells[:len(cells):len(cells)], more...)
		}
		_, _ = fmt.Fprintln(t, strings.Join(cells, "\t")) // Flush returns the error
	}
	if !o.NoHeaders && len(rows) > 0 {
		line("NAMESPACE", r.columns, r.wide)
	}
	for i := range rows {
		line(rows[i].namespace, rows[i].cells, rows[i].wide)
	}
	return t.Flush()
}

// list is several objects in JSON or YAML.
type list struct {
	Kind     string           `json:"kind"`
	Source   string           `json:"source"`
	Time     time.Time        `json:"time"`
	Node     string           `json:"node,omitempty"`
	Counted  bool             `json:"counted"`
	Items    []any            `json:"items"`
	Problems []status.Problem `json:"problems,omitempty"`
}

// printObjects writes one object if it was requested by name, or else a list.
func (o *Options) printObjects(w io.Writer, d *status.Document, rows []row) error {
	var out any
	if len(o.Names) == 1 && len(rows) == 1 {
		out = rows[0].object
	} else {
		all := list{"List", d.Source, d.Time, d.Node, d.Counted, make([]any, len(rows)), d.Problems}
		for i := range rows {
			all.Items[i] = rows[i].object
		}
		out = all
	}
	text, err := json.MarshalIndent(out, "", "    ")
	if err == nil && o.Output == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", o.Output, err)
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(text), "\n"))
	return err
}
