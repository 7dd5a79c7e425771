package get

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

// printer prints the requested rows of nodes as their documents come. Rows of several nodes
// have a column for the node, are a JSON list with a list per node, or a YAML document per node.
type printer struct {
	Options

	resource       *resource
	wanted         []string // names
	selector       fields.Selector
	sortBy         *column // nil for the order of names
	stdout, stderr io.Writer

	columns   output.Columns
	nodes     []string            // whose documents came; one without a name is the only one
	uncounted bool                // connections of a node
	printed   int                 // nodes, in JSON and YAML; rows otherwise
	empty     int                 // requested Services without rows
	names     map[string]bool     // printed ones, with -o name
	lacking   map[string][]string // nodes by the requested names that they do not have
	notes     []string            // at the end, in the order of the first ones
	noted     map[string][]string // nodes by notes
}

func newPrinter(o Options, stdout, stderr io.Writer) (*printer, error) {
	r, names, err := o.parseArgs()
	if err != nil {
		return nil, err
	}
	if err := formats.Check(o.Output); err != nil {
		return nil, err
	}
	selector, err := r.selector(o.FieldSelector)
	if err == nil {
		err = cmp.Or(nodestatus.CheckNamespace(o.Namespace), nodestatus.CheckNames(names), nodestatus.CheckObserve(o.Observe))
	}
	if err != nil {
		return nil, err
	}
	sortBy, err := r.column(o.SortBy)
	if err != nil {
		return nil, err
	}
	return &printer{
		Options: o, resource: r, wanted: names, selector: selector, sortBy: sortBy, stdout: stdout, stderr: stderr,
		columns: output.Columns{W: stdout}, names: map[string]bool{}, lacking: map[string][]string{},
		noted: map[string][]string{},
	}, nil
}

// Query returns the query for the rows.
func (p *printer) Query() nodestatus.Query {
	q := nodestatus.Query{Namespace: p.Namespace, Observe: p.Observe}
	if p.AllNamespaces {
		q.Namespace = ""
	}
	if p.resource.singular == "service" && len(p.wanted) == 1 {
		q.Name = p.wanted[0]
	}
	return q
}

// isText reports whether lines are printed, for which there is nothing to print without rows.
func (p *printer) isText() bool { return !output.IsObject(p.Output) }

func (p *printer) say(line string) {
	if line != "" {
		_, _ = fmt.Fprintln(p.stderr, output.CleanText(line))
	}
}

// Print prints the rows of a node; an empty name means the only one.
func (p *printer) Print(node string, d *nodestatus.Document) error {
	p.nodes = append(p.nodes, node)
	p.uncounted = p.uncounted || d.NotCounted()
	note := func(text string) {
		if p.noted[text] == nil {
			p.notes = append(p.notes, text)
		}
		p.noted[text] = append(p.noted[text], node)
	}
	if d.Source == nodestatus.FromDaemon && !d.Ready {
		note("The first state is not programmed yet; --kernel lists what an earlier process left.")
	}
	for _, problem := range d.Problems {
		if p.Output == "wide" || slices.Contains(
			[]string{nodestatus.ReasonUnread, nodestatus.ReasonUncertain, nodestatus.ReasonNotCounted}, problem.Reason) {
			note(problem.Object + ": " + strings.ReplaceAll(problem.Text, "\n", "; "))
		}
	}
	unlisted := 0
	for _, port := range d.EachPort() {
		unlisted += port.NotListed
	}
	if p.resource.short == "ep" && unlisted > 0 {
		note(fmt.Sprintf("%d rows are not listed, of endpoints without the port, or ports not programmed.", unlisted))
	}
	rows, missing := p.named(p.resource.items(d))
	for _, name := range missing {
		empty := false
		for i := range d.Services {
			if s := &d.Services[i]; s.Name == name {
				empty = true
				if p.empty++; p.isText() {
					note("Service " + s.Namespace + "/" + s.Name + " has no " + p.resource.plural + ".")
				}
			}
		}
		if !empty {
			p.lacking[name] = append(p.lacking[name], node)
		}
	}
	rows = slices.DeleteFunc(rows, func(i item) bool {
		return !p.selector.Matches(p.resource.fieldsOf(&i)) || p.Has != nil && !p.Has(i.s.Namespace, i.s.Name)
	})
	if p.sortBy != nil {
		slices.SortStableFunc(rows, func(a, b item) int { return compareCells(p.sortBy.text(&a), p.sortBy.text(&b)) })
	}
	if node == "" && len(rows) == 0 && len(p.lacking) > 0 {
		return nil // only an error
	}
	return p.errorf(p.printRows(node, d, rows))
}

func (p *printer) errorf(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("print %s: %w", p.resource.plural, err)
}

// named returns the rows with the wanted names, each once and in the order of the names,
// and the names that no row has.
func (p *printer) named(rows []item) (found []item, missing []string) {
	if len(p.wanted) == 0 {
		return rows, nil
	}
	taken := make([]bool, len(rows))
	for _, name := range p.wanted {
		exists := false
		for i := range rows {
			if !isNamed(&rows[i], p.resource.name(&rows[i]), name) {
				continue
			}
			if exists = true; !taken[i] {
				taken[i] = true
				found = append(found, rows[i])
			}
		}
		if !exists {
			missing = append(missing, name)
		}
	}
	return found, missing
}

func (p *printer) printRows(node string, d *nodestatus.Document, rows []item) error {
	switch p.Output {
	case "json", "yaml":
		var before string
		switch {
		case node == "":
		case p.Output == "yaml":
			before = "---\n"
		case p.printed == 0:
			before = listBegin + "\n"
		default:
			before = ",\n"
		}
		p.printed++
		var out any = p.list(d, rows)
		if node == "" && len(p.wanted) == 1 && len(rows) == 1 {
			out = p.resource.object(&rows[0])
		}
		if _, err := io.WriteString(p.stdout, before); err != nil {
			return err
		}
		return output.Write(p.stdout, p.Output, out)
	case "name":
		for i := range rows {
			name := p.resource.name(&rows[i])
			if node != "" && p.names[name] {
				continue
			}
			p.names[name] = true
			p.printed++
			if _, err := fmt.Fprintf(p.stdout, "%s/%s\n", p.resource.singular, output.Clean(name)); err != nil {
				return err
			}
		}
		return nil
	}
	p.printed += len(rows)
	return p.printTable(node, rows)
}

const listBegin = `{"kind":"List","items":[`

func (p *printer) cells(namespace string, text func(*column) string) (out []string) {
	if p.AllNamespaces {
		out = append(out, namespace)
	}
	columns := p.resource.columns
	if p.Output == "wide" {
		columns = slices.Concat(columns, p.resource.wide)
	}
	for i := range columns {
		out = append(out, text(&columns[i]))
	}
	return out
}

// printTable writes rows of a table, with the name of the node unless it is empty.
func (p *printer) printTable(node string, rows []item) error {
	var lines [][]string
	add := func(node string, cells []string) {
		if p.nodes[0] != "" {
			cells = append([]string{node}, cells...)
		}
		lines = append(lines, cells)
	}
	if len(rows) > 0 && !p.NoHeaders && !p.columns.Begun() {
		add("NODE", p.cells("NAMESPACE", func(c *column) string { return c.title }))
	}
	for i := range rows {
		add(node, p.cells(rows[i].s.Namespace, func(c *column) string { return cmp.Or(c.text(&rows[i]), none) }))
	}
	if len(lines) == 0 {
		return nil
	}
	return p.columns.Print(lines)
}

func (r *resource) column(title string) (*column, error) {
	if title == "" {
		return nil, nil
	}
	all := slices.Concat(r.columns, r.wide)
	var titles []string
	for i := range all {
		if strings.EqualFold(all[i].title, title) {
			return &all[i], nil
		}
		titles = append(titles, all[i].title)
	}
	return nil, fmt.Errorf("--sort-by: %q is not one of %s", title, strings.Join(titles, ", "))
}

// compareCells compares texts of a column; of two numbers, the greater one comes first.
func compareCells(a, b string) int {
	x, errX := strconv.ParseFloat(strings.TrimSuffix(a, "%"), 64)
	y, errY := strconv.ParseFloat(strings.TrimSuffix(b, "%"), 64)
	if errX == nil && errY == nil {
		return cmp.Compare(y, x)
	}
	return cmp.Compare(a, b)
}

type list struct {
	Kind     string               `json:"kind"`
	Source   string               `json:"source"`
	Time     time.Time            `json:"time"`
	Node     string               `json:"node,omitempty"`
	Counted  bool                 `json:"counted"`
	Items    []any                `json:"items"`
	Problems []nodestatus.Problem `json:"problems,omitempty"`
}

func (p *printer) list(d *nodestatus.Document, rows []item) list {
	all := list{"List", d.Source, d.Time, d.Node, d.Counted, make([]any, len(rows)), d.Problems}
	for i := range rows {
		all.Items[i] = p.resource.object(&rows[i])
	}
	return all
}

// Close prints the end. Names that no node has are an error; of others it prints the nodes that
// do not have them.
func (p *printer) Close() error {
	several := len(p.nodes) == 0 || p.nodes[0] != ""
	if p.Output == "json" && several {
		end := "]}\n"
		if p.printed == 0 {
			end = listBegin + end
		}
		if _, err := io.WriteString(p.stdout, end); err != nil {
			return p.errorf(err)
		}
	}
	slices.SortFunc(p.nodes, findings.CompareNames)
	for _, text := range p.notes {
		slices.SortFunc(p.noted[text], findings.CompareNames)
		where := findings.Where(p.noted[text], p.nodes, ", ")
		p.say(strings.TrimPrefix(where+": ", ": ") + text)
	}
	var missing []string
	for _, name := range p.wanted {
		switch nodes := p.lacking[name]; {
		case len(nodes) == 0:
		case len(nodes) == len(p.nodes):
			missing = append(missing, name)
		default:
			slices.Sort(nodes)
			p.say(fmt.Sprintf("%s %s: not on %s", p.resource.singular, name, strings.Join(nodes, ", ")))
		}
	}
	if p.isText() && len(p.nodes) > 0 && p.printed+len(missing)+p.empty == 0 {
		nothing := "No resources found" // kubectl's line
		if !p.AllNamespaces {
			nothing += " in " + p.Namespace + " namespace."
		}
		p.say(nothing)
	}
	switch {
	case len(missing) > 0:
	case p.uncounted:
		err := errors.New("connections of some addresses are not counted now (?)")
		return &exit.Error{Code: exit.Trouble, Err: err}
	default:
		return nil
	}
	where := fmt.Sprintf(" in namespace %q (-n names another one, -A means all)", p.Namespace)
	if p.AllNamespaces {
		where = ""
	}
	return fmt.Errorf("%s not found%s: %s", p.resource.plural, where, strings.Join(missing, ", "))
}
