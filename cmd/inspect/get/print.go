package get

import (
	"cmp"
	"fmt"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

// print writes the rows of a document in the output format.
func (p *printer) print(d *nodestatus.Document, rows []row) error {
	switch p.Output {
	case "json", "yaml":
		var out any = p.list(d, rows)
		if len(p.Names) == 1 && len(rows) == 1 {
			out = rows[0].object
		}
		return output.Write(p.stdout, p.Output, out)
	case "name":
		for i := range rows {
			if err := p.printName(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return p.printTable("", rows)
}

func (p *printer) printName(r *row) error {
	_, err := fmt.Fprintf(p.stdout, "%s/%s\n", p.resource.singular, r.name)
	return err
}

// printTable writes rows of a table, with the name of their node unless it is empty.
func (p *printer) printTable(node string, rows []row) error {
	line := func(node, namespace string, cells, wide []string) (out []string) {
		if node != "" {
			out = append(out, node)
		}
		if p.AllNamespaces {
			out = append(out, namespace)
		}
		out = append(out, cells...)
		if p.Output == "wide" {
			out = append(out, wide...)
		}
		return out
	}
	if len(rows) == 0 {
		return nil
	}
	var lines [][]string
	if !p.NoHeaders && !p.columns.Begun() {
		title := ""
		if node != "" {
			title = "NODE"
		}
		lines = append(lines, line(title, "NAMESPACE", p.resource.columns, p.resource.wide))
	}
	for i := range rows {
		lines = append(lines, line(cmp.Or(rows[i].node, node), rows[i].namespace, rows[i].cells, rows[i].wide))
	}
	return p.columns.Print(lines)
}

// list is several objects in JSON or YAML.
type list struct {
	Kind     string               `json:"kind"`
	Source   string               `json:"source"`
	Time     time.Time            `json:"time"`
	Node     string               `json:"node,omitempty"`
	Counted  bool                 `json:"counted"`
	Items    []any                `json:"items"`
	Problems []nodestatus.Problem `json:"problems,omitempty"`
}

// list returns rows as a list of objects.
func (p *printer) list(d *nodestatus.Document, rows []row) list {
	all := list{"List", d.Source, d.Time, d.Node, d.Counted, make([]any, len(rows)), d.Problems}
	for i := range rows {
		all.Items[i] = rows[i].object
	}
	return all
}
