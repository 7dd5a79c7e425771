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

	"github.com/spf13/cobra"

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

// Labels returns which Services have the labels of a selector.
type Labels func(ctx context.Context, selector string) (func(namespace, name string) bool, error)

// NewCommand returns the command; labels is nil where no labels are known.
func NewCommand(from nodes.Nodes, program string, labels Labels) *cobra.Command {
	var o Options
	var selector string
	cmd := &cobra.Command{
		Use:   "get services|endpoints|frontends [NAME...]",
		Short: "Show what is programmed for Services, like kubectl get",
		Long: `Show what a node programs for Services, endpoints or frontends (the addresses and ports
that clients connect to), as the running kube-vmap reports it. kube-vmap get shows this
node; without a running kube-vmap, the kernel's tables.

All nodes program the same Services, so kubectl vmap get asks one of them, and names it on
stderr. Connections, and what depends on where a node is (NotLocal, hints, slots),
are as on that node. --node NAME asks another one; with several names or
--all-nodes, the rows have a column NODE and come as the nodes answer. Nodes that do
not answer are named at the end, and make the exit code 1.

` + help(),
		Example: strings.ReplaceAll(`  PROGRAM get svc -A
  PROGRAM get endpoints -n shop web -o wide
  PROGRAM get fe -A --field-selector spec.verdict!=Balance
  PROGRAM get fe -A 10.96.0.10`, "PROGRAM", program),
		ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if _, o.Namespace, err = from.Namespace(); err != nil {
				return err
			}
			if selector != "" {
				if o.Has, err = labels(cmd.Context(), selector); err != nil {
					return err
				}
			}
			o.Args, o.EachNode = args, cmd.Flags().Changed("all-nodes")
			return Run(cmd.Context(), o, from, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "show all namespaces")
	formats.AddFlag(cmd, &o.Output)
	f.BoolVar(&o.NoHeaders, "no-headers", false, "do not print column headers")
	f.DurationVar(&o.Observe, "observe", 0, "how long to observe first whether endpoints respond, at most 10s")
	f.StringVar(&o.SortBy, "sort-by", "", "sort by a `column`, numbers with the greatest first: ACTIVE")
	f.StringVar(&o.FieldSelector, "field-selector", "", "`selector` of fields: metadata.name=web,spec.kind!=NodePort")
	if labels != nil {
		f.StringVarP(&selector, "selector", "l", "", "only Services with the labels of a `selector`, and their parts")
	}
	from.AddFlags(cmd)
	return cmd
}

func help() string {
	return `  services   svc   ENDPOINTS: addresses that get connections / in EndpointSlices; one
                   that serves several ports counts once.
                   STATUS: OK, or the reason, as in kube-vmap problems; from the
                   kernel, which has no objects, Programmed instead of OK.
                   ` + notices() + ` may be intended, and are
                   notices, but for pods without an endpoint, and for clients that
                   wait; any other one is a problem (--field-selector
                   severity=Problem, or Notice). Each Service counts once.
  endpoints  ep    REASON why one gets no connections: NotReady, Terminating,
                   Drained (weight 0), StandBy (others have a better priority),
                   NotLocal, OtherZones and OtherNodes (hints), NoPort, Duplicate,
                   NotProgrammed, Busy (lc: others have fewer active connections),
                   Gone (in no EndpointSlice, but with open connections), Avoided
                   (it is unresponsive). One that is used may be (unresponsive),
                   with MaxPercent or LastEndpoint if that is why it is not Avoided,
                   (possibly unresponsive), in (slow start) with a part of its
                   weight, a terminating (fallback) or, with --observe, one that
                   (refuses) with a reset or is (silent).
                   With -o wide, FIELD is the field of an object that causes the
                   REASON. SHARE is the part of new connections.
  frontends  fe    KIND: ClusterIP, NodePort, ExternalIP, LoadBalancerIP; from the
                   kernel, which does not distinguish the last two, External.
                   VERDICT: Balance, or Reject, Drop or Hold without an endpoint.

CONNECTIONS are the total so far, ACTIVE those that are open now (UDP: flows with
recent packets), FAST-PATH open ones whose packets pass no rules (--fast-path).
Headless and ExternalName Services need no proxy, and are not shown.

Endpoints and frontends are named by their Service or by their address, with or
without port and protocol: 10.96.0.10, 10.96.0.10:53, [fd00::a]:53/udp, *:30080.

Fields for --field-selector:

` + fieldsHelp()
}

func notices() string {
	return strings.Join(slices.DeleteFunc(nodestatus.States(),
		func(s string) bool { return nodestatus.SeverityOf(s) != nodestatus.SeverityNotice }), ", ")
}

func fieldsHelp() string {
	const columns, indent = 80, 13
	var b strings.Builder
	for _, r := range resources {
		line := fmt.Sprintf("  %-*s", indent-2, r.plural)
		for i, name := range r.fieldNames() {
			if i > 0 {
				line += ","
			}
			if len(line)+len(name)+2 > columns {
				b.WriteString(line + "\n")
				line = strings.Repeat(" ", indent)
			}
			line += " " + name
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func complete(_ *cobra.Command, args []string, _ string) (out []string, d cobra.ShellCompDirective) {
	if len(args) == 0 {
		for _, r := range resources {
			out = append(out, r.plural)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
