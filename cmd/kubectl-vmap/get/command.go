// Package get is kubectl vmap get: the rows of kube-vmap get, from one node or from all.
package get

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/get"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kubectl-vmap/nodes"
)

// NewCommand returns kubectl vmap get.
func NewCommand(f *nodes.Flags) *cobra.Command {
	var o get.Options
	var selection nodes.Selection
	cmd := &cobra.Command{
		Use:   "get services|endpoints|frontends [NAME...]",
		Short: "Show what nodes program for Services, like kubectl get",
		Long: `Show what nodes program for Services, endpoints or frontends (the addresses and ports
that clients connect to), as kube-vmap reports it there.

All nodes program the same Services, so by default one of them is asked, and named on
stderr. Numbers of connections are those of the node, and so is what depends on where
it is: NotLocal, hints, slots. --node NAME asks another one; with several names or
--all-nodes, the rows have a column NODE and come as the nodes answer. If objects are
named, rows that several nodes have are printed once, at the end. Nodes that do not
answer are named at the end, and make the exit code 1.

` + get.Help(),
		Example: `  kubectl vmap get svc -A
  kubectl vmap get endpoints -n shop web --node node-1 -o wide
  kubectl vmap get svc -n shop web --all-nodes
  kubectl vmap get svc -A --all-nodes --field-selector severity=Problem`,
		ValidArgsFunction: get.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.Namespace, err = f.CurrentNamespace(); err != nil {
				return err
			}
			o.Args = args
			c, err := f.Cluster(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			r := request{c, o, selection, cmd.OutOrStdout(), cmd.ErrOrStderr()}
			return r.run(cmd.Context())
		},
	}
	o.AddFlags(cmd)
	selection.AddFlags(cmd.Flags(), "by default one that answers")
	return cmd
}

type request struct {
	cluster        *nodes.Cluster
	options        get.Options
	selection      nodes.Selection
	stdout, stderr io.Writer
}

func (r *request) run(ctx context.Context) error {
	list, err := r.selection.Select(ctx, r.cluster)
	switch {
	case err != nil:
		return err
	case len(r.selection.Names) == 1:
		return get.Run(ctx, r.options, r.source(list[0], ""), r.stdout, r.stderr)
	case r.selection.All || len(r.selection.Names) > 1:
		return r.runAll(ctx, list)
	}
	return get.Run(ctx, r.options, r.firstOf(list), r.stdout, r.stderr)
}

// source returns the source of one node.
func (r *request) source(n nodes.Node, note string) get.Source {
	return func(ctx context.Context, q status.Query) (*status.Document, string, error) {
		d, err := r.cluster.Document(ctx, n, q)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", n.Name, err)
		}
		return d, note, nil
	}
}

// attempts is how many nodes are asked until one answers.
const attempts = 3

// firstOf returns the source of a node that answers.
func (r *request) firstOf(list []nodes.Node) get.Source {
	return func(ctx context.Context, q status.Query) (*status.Document, string, error) {
		candidates := slices.DeleteFunc(slices.Clone(list), func(n nodes.Node) bool { return n.Missing })
		slices.SortStableFunc(candidates, func(a, b nodes.Node) int { return len(a.Why) - len(b.Why) }) // ready ones first
		failed := fmt.Errorf("no node of %d runs kube-vmap, for instance %s: %s", len(list), list[0].Name, list[0].Why)
		note := ""
		for _, n := range candidates[:min(attempts, len(candidates))] {
			note += fmt.Sprintf("Of node %s; --all-nodes shows all %d, --node another one.", n.Name, len(list))
			d, _, err := r.source(n, "")(ctx, q)
			if err == nil {
				if len(list) == 1 {
					note = ""
				}
				return d, note, nil
			}
			failed, note = err, err.Error()+"\n"
			if ctx.Err() != nil || errors.Is(err, nodes.ErrNoPermission) {
				break
			}
		}
		return nil, "", failed
	}
}

// runAll prints the rows of nodes as they answer.
func (r *request) runAll(ctx context.Context, list []nodes.Node) error {
	p, err := get.NewNodesPrinter(r.options, r.stdout, r.stderr)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var failures nodes.Failures
	var printErr error
	nodes.Ask(ctx, r.cluster, list, func(ctx context.Context, n nodes.Node) (*status.Document, error) {
		return r.cluster.Document(ctx, n, p.Query())
	}, func(n nodes.Node, d *status.Document, err error) {
		if printErr != nil {
			return
		}
		failures.Add(n, err)
		if err == nil {
			if printErr = p.Print(n.Name, d); printErr != nil {
				stop()
			}
		}
	})
	if printErr != nil {
		return printErr
	}
	missing := p.Close()
	if err := failures.Err(r.stderr); err != nil {
		return errors.Join(missing, err)
	}
	return missing
}
