// Package get is kube-vmap get: it shows what is programmed for Services, endpoints and
// frontends in the manner of kubectl get.
//
//	Source --Document--> items of a resource --names, --field-selector--> table, JSON, YAML, names
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
	// Has reports whether a Service has the labels of a selector; nil without one.
	Has func(namespace, name string) bool
}

// Source returns a document, and a line about it for the user, which may be empty.
type Source func(context.Context, nodestatus.Query) (d *nodestatus.Document, note string, err error)

var formats = output.Formats{"wide", "json", "yaml", "name"}

// Run prints the requested rows of one node. A name that does not exist is an error, after the
// others were printed.
func Run(ctx context.Context, o Options, from Source, stdout, stderr io.Writer) error {
	p, err := NewNodesPrinter(o, stdout, stderr)
	if err != nil {
		return err
	}
	doc, note, err := from(ctx, p.Query())
	if err != nil {
		return err
	}
	p.say(note)
	return errors.Join(p.Print("", doc), p.Close())
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
