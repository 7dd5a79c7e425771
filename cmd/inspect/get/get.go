package get

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

// Options are the arguments and flags of the command.
type Options struct {
	// Args are a resource and names, in kubectl's forms: "svc web" or "svc/web".
	Args          []string
	Namespace     string
	AllNamespaces bool
	// Output is empty for a table, or wide, json, yaml or name.
	Output    string
	NoHeaders bool
	// Observe is how long to observe whether endpoints respond.
	Observe       time.Duration
	FieldSelector string
	// Labels is an error if set: no row has labels.
	Labels string

	// Names are those of Args; set by [Run].
	Names []string
}

// Source returns a document, and a line about it for the user, which may be empty.
type Source func(context.Context, nodestatus.Query) (d *nodestatus.Document, note string, err error)

// formats are the values of Output.
var formats = output.Formats{"wide", "json", "yaml", "name"}

// Run prints the requested rows. A name that does not exist is an error, after the others
// were printed.
func Run(ctx context.Context, o Options, from Source, stdout, stderr io.Writer) error {
	p, err := o.printer(stdout, stderr)
	if err != nil {
		return err
	}
	doc, note, err := from(ctx, p.Query())
	if err != nil {
		return err
	}
	printLine(stderr, note)
	rows, missing := p.rows(doc, func(text string) { printLine(stderr, text) })
	if p.fastPath.nodes > 0 && p.isTable() {
		printLine(stderr, "Fast path on: "+nodestatus.Plural(p.fastPath.connections, "connection"))
	}
	if p.isText() && len(rows)+len(missing) == 0 {
		if p.empty == 0 {
			printLine(stderr, o.nothing())
		}
		return nil
	}
	if len(rows) > 0 || len(missing) == 0 {
		if err := p.print(doc, rows); err != nil {
			return fmt.Errorf("print %s: %w", p.resource.plural, err)
		}
	}
	if err := p.notFound(missing); err != nil || !doc.NotCounted() {
		return err
	}
	return &exit.Error{Code: exit.Trouble, Err: errors.New("connections of some addresses are not counted now (?)")}
}

// printer prints rows of documents.
type printer struct {
	Options

	resource       resource
	selector       fields.Selector
	stdout, stderr io.Writer
	columns        output.Columns
	empty          int // requested Services without rows
	fastPath       struct{ nodes, connections int }
}

// printer returns a printer for the options, or an error about them.
func (o *Options) printer(stdout, stderr io.Writer) (*printer, error) {
	r, err := o.parseArgs()
	if err != nil {
		return nil, err
	}
	selector, err := o.check(&r)
	if err != nil {
		return nil, err
	}
	return &printer{
		Options: *o, resource: r, selector: selector, stdout: stdout, stderr: stderr,
		columns: output.Columns{W: stdout},
	}, nil
}

// isTable reports whether rows are printed as a table.
func (o *Options) isTable() bool { return o.Output == "" || o.Output == "wide" }

// isText reports whether lines are printed, for which there is nothing to print without
// rows.
func (o *Options) isText() bool { return o.isTable() || o.Output == "name" }

// rows returns the requested rows of a document, and the requested names that it does not
// have. It notes the problems of the document.
func (p *printer) rows(doc *nodestatus.Document, note func(string)) (rows []row, missing []string) {
	for _, problem := range doc.Problems {
		if p.Output == "wide" || problem.Reason == nodestatus.ReasonUnread || problem.Reason == nodestatus.ReasonUncertain ||
			problem.Reason == nodestatus.ReasonNotCounted {
			note(problem.Object + ": " + strings.ReplaceAll(problem.Text, "\n", "; "))
		}
	}
	switch {
	case doc.IsFastPathOn():
		p.fastPath.nodes++
		p.fastPath.connections += doc.FastPath
	case p.isTable() && doc.FastPathReason() != "":
		note("Fast path off: " + doc.FastPathReason())
	}
	rows, missing = p.named(p.resource.rows(doc))
	empty, missing := withoutRows(doc, missing)
	p.empty += len(empty)
	for _, name := range empty {
		if p.isText() {
			note("Service " + name + " has no " + p.resource.plural + ".")
		}
	}
	return slices.DeleteFunc(rows, func(x row) bool { return !p.selector.Matches(x.fields) }), missing
}

// printLine prints a line unless it is empty.
func printLine(stderr io.Writer, line string) {
	if line != "" {
		_, _ = fmt.Fprintln(stderr, line)
	}
}

// parseArgs finds the resource and names in the arguments.
func (o *Options) parseArgs() (resource, error) {
	if len(o.Args) == 0 {
		return resource{}, errors.New("resource type missing: services, endpoints or frontends")
	}
	name, first, joined := strings.Cut(o.Args[0], "/")
	r, known := find(name)
	if !known {
		return r, fmt.Errorf("there is no resource type %q: get services (svc), endpoints (ep) or frontends (fe)", name)
	}
	if !joined {
		for _, arg := range o.Args[1:] { // or as -o name prints them
			if kind, rest, typed := strings.Cut(arg, "/"); typed && r.called(kind) {
				arg = rest
			}
			o.Names = append(o.Names, arg)
		}
		return r, nil
	}
	o.Names = []string{first}
	for _, arg := range o.Args[1:] {
		name, rest, _ := strings.Cut(arg, "/")
		if other, known := find(name); !known || other.plural != r.plural || rest == "" {
			return r, fmt.Errorf("%s after %s: only others of the same type, as %s/NAME", arg, o.Args[0], r.singular)
		}
		o.Names = append(o.Names, rest)
	}
	return r, nil
}

// check checks the flags, and parses the selector.
func (o *Options) check(r *resource) (fields.Selector, error) {
	if o.Labels != "" {
		return nil, errors.New("-l: the proxy does not keep labels; select with kubectl (kubectl get services -l " +
			o.Labels +
			" -o name) and name the Services here, or use --field-selector")
	}
	if err := formats.Check(o.Output); err != nil {
		return nil, err
	}
	return r.selector(o.FieldSelector)
}

// Query returns the query for the rows.
func (p *printer) Query() nodestatus.Query {
	q := nodestatus.Query{Namespace: p.Namespace, Observe: p.Observe}
	if p.AllNamespaces {
		q.Namespace = ""
	}
	if p.resource.singular == "service" && len(p.Names) == 1 {
		q.Name = p.Names[0]
	}
	return q
}

// named returns the rows with the wanted names, each once and in the order of the names,
// and the names that no row has.
func (o *Options) named(rows []row) (found []row, missing []string) {
	if len(o.Names) == 0 {
		return rows, nil
	}
	taken := make([]bool, len(rows))
	for _, name := range o.Names {
		want, there := newWanted(name), false
		for i := range rows {
			if !rows[i].is(want) {
				continue
			}
			there = true
			if !taken[i] {
				taken[i] = true
				found = append(found, rows[i])
			}
		}
		if !there {
			missing = append(missing, name)
		}
	}
	return found, missing
}

// withoutRows returns the Services with these names, which have no rows, as
// "namespace/name", and the names that no Service has.
func withoutRows(d *nodestatus.Document, names []string) (empty, missing []string) {
	for _, name := range names {
		before := len(empty)
		for i := range d.Services {
			if s := &d.Services[i]; s.Name == name {
				empty = append(empty, s.Namespace+"/"+s.Name)
			}
		}
		if len(empty) == before {
			missing = append(missing, name)
		}
	}
	return empty, missing
}

// nothing returns kubectl's line for no rows.
func (o *Options) nothing() string {
	if o.AllNamespaces {
		return "No resources found"
	}
	return "No resources found in " + o.Namespace + " namespace."
}

// notFound returns the error about names that do not exist; nil if all do.
func (p *printer) notFound(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	where := fmt.Sprintf(" in namespace %q (-n names another one, -A means all)", p.Namespace)
	if p.AllNamespaces {
		where = ""
	}
	return fmt.Errorf("%s not found%s: %s", p.resource.plural, where, strings.Join(missing, ", "))
}
