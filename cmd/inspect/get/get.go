// Package get is kube-vmap get: it shows what is programmed for Services, endpoints and
// frontends in the manner of kubectl get.
//
//	Nodes --Document--> items of a resource --names, --field-selector--> table, JSON, YAML, names
//
// resource.go has the columns and fields of each resource as data.
package get

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodes"
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
	// SortBy is the title of a column, or empty for the order of names.
	SortBy string
	// EachNode prints the names of nodes even of the only one.
	EachNode bool
	// Has reports whether a Service has the labels of a selector; nil without one.
	Has func(namespace, name string) bool
}

var formats = output.Formats{"wide", "json", "yaml", "name"}

// Run prints the requested rows: of the nodes that the user has chosen, or else of one that answers. A
// name that does not exist is an error, after the others were printed.
func Run(ctx context.Context, o Options, from nodes.Nodes, stdout, stderr io.Writer) error {
	p, err := newPrinter(o, stdout, stderr)
	if err != nil {
		return err
	}
	list, err := from.Find(ctx)
	if err != nil {
		return err
	}
	if !list.Chosen || len(list.Nodes) == 1 && !o.EachNode {
		d, err := first(ctx, from, list, p)
		if err != nil {
			return err
		}
		return errors.Join(p.Print("", d), p.Close())
	}
	failures, err := nodes.Answers(ctx, list, func(ctx context.Context, n nodes.Node) (*nodestatus.Document, error) {
		return from.Document(ctx, n, p.Query())
	}, func(n nodes.Node, d *nodestatus.Document) error { return p.Print(n.Name, d) })
	if err != nil {
		return err
	}
	return errors.Join(p.Close(), failures.Err(stderr))
}

// attempts is how many nodes are asked until one answers.
const attempts = 3

// first returns the document of a node that answers, and prints which one that is if there are others.
func first(ctx context.Context, from nodes.Nodes, list nodes.List, p *printer) (*nodestatus.Document, error) {
	all := list.Nodes
	candidates := slices.DeleteFunc(slices.Clone(all), func(n nodes.Node) bool { return n.Missing })
	nodes.ReadyFirst(candidates)
	failed := fmt.Errorf("%s: %s", all[0].Name, all[0].Why)
	if len(all) > 1 {
		failed = fmt.Errorf("no node of %d runs kube-vmap, for instance %w", len(all), failed)
	}
	before := ""
	for _, n := range candidates[:min(attempts, len(candidates))] {
		d, err := from.Document(ctx, n, p.Query())
		if err == nil {
			if p.say(before); len(all) > 1 {
				p.say(fmt.Sprintf("Of node %s; --all-nodes shows all %d, --node another one.", n.Name, len(all)))
			}
			return d, nil
		}
		if failed = err; n.Name != "" {
			failed = fmt.Errorf("%s: %w", n.Name, err)
		}
		before = failed.Error()
		if ctx.Err() != nil || errors.Is(err, nodes.ErrNoPermission) {
			break
		}
	}
	return nil, failed
}

func (o *Options) parseArgs() (r *resource, names []string, err error) {
	if len(o.Args) == 0 {
		return nil, nil, errors.New("resource type missing: services, endpoints or frontends")
	}
	name, first, joined := strings.Cut(o.Args[0], "/")
	if r = find(name); r == nil {
		return nil, nil, fmt.Errorf("there is no resource type %q: get services (svc), endpoints (ep) or "+
			"frontends (fe)", name)
	}
	if joined {
		names = append(names, first)
	}
	for _, arg := range o.Args[1:] {
		kind, rest, typed := strings.Cut(arg, "/")
		same := typed && rest != "" && find(kind) == r // as -o name prints them
		if joined && !same {
			return nil, nil, fmt.Errorf("%s after %s: only others of the same type, as %s/NAME", arg, o.Args[0], r.singular)
		}
		if same {
			arg = rest
		}
		if !slices.Contains(names, arg) {
			names = append(names, arg)
		}
	}
	return r, names, nil
}

func find(name string) *resource {
	for i := range resources {
		if r := &resources[i]; slices.Contains([]string{r.singular, r.plural, r.short}, strings.ToLower(name)) {
			return r
		}
	}
	return nil
}
