package get

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"kube-vmap/cmd/inspect/status"
)

// Options are what was asked for.
type Options struct {
	// Args are a resource and names, as kubectl takes them: "svc web" or "svc/web".
	Args          []string
	Namespace     string
	AllNamespaces bool
	// Output is empty for a table, or wide, json, yaml or name.
	Output        string
	NoHeaders     bool
	FieldSelector string
	// Labels is what no rows can be selected by.
	Labels string

	// Names are those of Args, as [Run] finds them.
	Names []string
}

// Source is where documents come from. It says in a line how they are to be read, if
// that needs to be said.
type Source func(context.Context, status.Query) (d *status.Document, note string, err error)

// outputs are the forms in which rows are printed.
var outputs = []string{"", "wide", "json", "yaml", "name"}

// Run prints what was asked for. A name that is not there is an error, after the
// others were printed.
func Run(ctx context.Context, o Options, from Source, stdout, stderr io.Writer) error {
	r, err := o.parseArgs()
	if err != nil {
		return err
	}
	selector, err := o.check(&r)
	if err != nil {
		return err
	}
	doc, note, err := from(ctx, o.query(&r))
	if err != nil {
		return err
	}
	tell(stderr, note)
	for _, p := range doc.Problems {
		if o.Output == "wide" || p.Reason == status.ReasonUnread || p.Reason == status.ReasonUncertain {
			tell(stderr, p.Object+": "+strings.ReplaceAll(p.Text, "\n", "; "))
		}
	}
	rows, missing := o.named(r.rows(doc))
	empty, missing := withoutRows(doc, missing)
	rows = slices.DeleteFunc(rows, func(x row) bool { return !selector.Matches(x.fields) })
	if o.Output == "" || o.Output == "wide" || o.Output == "name" {
		for _, name := range empty {
			tell(stderr, "Service "+name+" has no "+r.plural+".")
		}
		if len(rows)+len(missing)+len(empty) == 0 {
			tell(stderr, o.nothing())
		}
		if len(rows)+len(missing) == 0 {
			return nil
		}
	}
	if len(rows) > 0 || len(missing) == 0 {
		if err := o.print(stdout, &r, doc, rows); err != nil {
			return fmt.Errorf("print %s: %w", r.plural, err)
		}
	}
	return o.notFound(&r, missing)
}

// tell writes a line for people, if there is anything to say.
func tell(stderr io.Writer, line string) {
	if line != "" {
		_, _ = fmt.Fprintln(stderr, line) // there is no other place to say it
	}
}

// resource finds the resource and names among the arguments.
func (o *Options) parseArgs() (resource, error) {
	if len(o.Args) == 0 {
		return resource{}, errors.New("name what to get: services, endpoints or frontends")
	}
	name, first, joined := strings.Cut(o.Args[0], "/")
	r, known := find(name)
	if !known {
		return r, fmt.Errorf("there is no resource type %q: get services (svc), endpoints (ep) or frontends (fe)", name)
	}
	if !joined {
		for _, arg := range o.Args[1:] { // as -o name prints them, too
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

// check refuses what cannot be done, and reads the selector.
func (o *Options) check(r *resource) (fields.Selector, error) {
	if o.Labels != "" {
		return nil, errors.New("-l: the proxy keeps no labels; select with kubectl (kubectl get services -l " + o.Labels +
			" -o name) and name the Services here, or use --field-selector")
	}
	if !slices.Contains(outputs, o.Output) {
		return nil, fmt.Errorf("-o %s: must be wide, json, yaml or name", o.Output)
	}
	return r.selector(o.FieldSelector)
}

// query is what to ask for.
func (o *Options) query(r *resource) status.Query {
	q := status.Query{Namespace: o.Namespace}
	if o.AllNamespaces {
		q.Namespace = ""
	}
	if r.singular == "service" && len(o.Names) == 1 {
		q.Name = o.Names[0]
	}
	return q
}

// named are the rows that were asked for by name, each once and in the order of the
// names, and the names that there are not.
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

// withoutRows are the Services among those names that have no rows, as "namespace/name",
// and the names of which there is no Service.
func withoutRows(d *status.Document, names []string) (empty, missing []string) {
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

// nothing says that there is nothing, as kubectl does.
func (o *Options) nothing() string {
	if o.AllNamespaces {
		return "No resources found"
	}
	return "No resources found in " + o.Namespace + " namespace."
}

// notFound is an error about names that there are not; nil if all are there.
func (o *Options) notFound(r *resource, missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	where := fmt.Sprintf(" in namespace %q (-n names another one, -A means all)", o.Namespace)
	if o.AllNamespaces {
		where = ""
	}
	return fmt.Errorf("%s not found%s: %s", r.plural, where, strings.Join(missing, ", "))
}
