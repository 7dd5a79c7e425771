package get

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

// NodesPrinter prints the requested rows of several nodes, as their documents come: in a
// table with a column for the node, as a JSON list with a list per node, or as a YAML
// document per node. In a table of objects that were named, a row that several nodes have is
// printed once, at the end; of all objects there may be too many to keep.
type NodesPrinter struct {
	*printer

	printed int                 // nodes, in JSON and YAML; rows otherwise
	names   map[string]bool     // printed ones, with -o name
	lacking map[string][]string // nodes by the requested names that they do not have
	nodes   []string
	notes   groups
	lines   groups
}

// groups are texts, or rows, with the nodes that have them, in the order of the first ones.
type groups struct {
	list []*group
	by   map[string]*group
}

type group struct {
	text  string
	row   row
	nodes []string
}

// add adds a text of a node.
func (g *groups) add(node, text string) *group {
	if g.by == nil {
		g.by = map[string]*group{}
	}
	found := g.by[text]
	if found == nil {
		found = &group{text: text}
		g.by[text], g.list = found, append(g.list, found)
	}
	found.nodes = append(found.nodes, node)
	return found
}

// where names the nodes of a group.
func (p *NodesPrinter) where(g *group, separator string) string {
	slices.SortFunc(g.nodes, findings.CompareNames)
	return findings.Where(g.nodes, p.nodes, separator)
}

// NewNodesPrinter returns a printer for the options, or an error about them.
func NewNodesPrinter(o Options, stdout, stderr io.Writer) (*NodesPrinter, error) {
	p, err := o.printer(stdout, stderr)
	if err != nil {
		return nil, err
	}
	return &NodesPrinter{printer: p, names: map[string]bool{}, lacking: map[string][]string{}}, nil
}

// Print prints the rows of a node.
func (p *NodesPrinter) Print(node string, d *nodestatus.Document) error {
	p.nodes = append(p.nodes, node)
	rows, missing := p.rows(d, func(text string) { p.notes.add(node, text) })
	for _, name := range missing {
		p.lacking[name] = append(p.lacking[name], node)
	}
	err := p.printRows(node, d, rows)
	if err != nil {
		return fmt.Errorf("print %s: %w", p.resource.plural, err)
	}
	return nil
}

func (p *NodesPrinter) printRows(node string, d *nodestatus.Document, rows []row) error {
	switch p.Output {
	case "json":
		before := ",\n"
		if p.printed == 0 {
			before = `{"kind":"List","items":[` + "\n"
		}
		p.printed++
		if _, err := io.WriteString(p.stdout, before); err != nil {
			return err
		}
		return output.Write(p.stdout, p.Output, p.list(d, rows))
	case "yaml":
		p.printed++
		if _, err := io.WriteString(p.stdout, "---\n"); err != nil {
			return err
		}
		return output.Write(p.stdout, p.Output, p.list(d, rows))
	case "name":
		for i := range rows {
			if p.names[rows[i].name] {
				continue
			}
			p.names[rows[i].name] = true
			p.printed++
			if err := p.printName(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	}
	p.printed += len(rows)
	if len(p.Names) == 0 {
		return p.printTable(node, rows)
	}
	for i := range rows {
		p.lines.add(node, strings.Join(append([]string{rows[i].namespace}, append(rows[i].cells, rows[i].wide...)...),
			"\x00")).row = rows[i]
	}
	return nil
}

// Close prints the end. Names that no node has are an error, as in [Run]; of others it
// prints the nodes that do not have them.
func (p *NodesPrinter) Close() error {
	if p.Output == "json" {
		end := "]}\n"
		if p.printed == 0 {
			end = `{"kind":"List","items":[]}` + "\n"
		}
		if _, err := io.WriteString(p.stdout, end); err != nil {
			return fmt.Errorf("print %s: %w", p.resource.plural, err)
		}
	}
	slices.SortFunc(p.nodes, findings.CompareNames)
	var rows []row
	for _, g := range p.lines.list {
		g.row.node = p.where(g, ",")
		rows = append(rows, g.row)
	}
	if len(rows) > 0 {
		if err := p.printTable(rows[0].node, rows); err != nil {
			return fmt.Errorf("print %s: %w", p.resource.plural, err)
		}
	}
	for _, g := range p.notes.list {
		printLine(p.stderr, p.where(g, ", ")+": "+g.text)
	}
	if on := p.fastPath; on.nodes > 0 && p.isTable() {
		printLine(p.stderr, fmt.Sprintf("Fast path on %d of %s: %s", on.nodes, nodestatus.Plural(len(p.nodes), "node"),
			nodestatus.Plural(on.connections, "connection")))
	}
	var missing []string
	for _, name := range p.Names {
		switch nodes := p.lacking[name]; {
		case len(nodes) == 0:
		case len(nodes) == len(p.nodes):
			missing = append(missing, name)
		default:
			slices.Sort(nodes)
			printLine(p.stderr, fmt.Sprintf("%s %s: not on %s", p.resource.singular, name, strings.Join(nodes, ", ")))
		}
	}
	if p.isText() && len(p.nodes) > 0 && p.printed+len(missing)+p.empty == 0 {
		printLine(p.stderr, p.nothing())
	}
	return p.notFound(missing)
}
