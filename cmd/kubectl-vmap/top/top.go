// Package top is kubectl vmap top: the connections of Services on all nodes, added up live.
//
//	Selection --> Cluster.Ask: a Document of each node --> top.Answer --> screen, or lines
//
// Package cmd/inspect/top adds the nodes up, package screen has the interactive table.
package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top"
	"kube-vmap/cmd/kubectl-vmap/nodes"
	"kube-vmap/cmd/kubectl-vmap/top/screen"
)

// interval is the default interval: each query runs a command on every node.
const interval = 2 * time.Second

// NewCommand returns kubectl vmap top.
func NewCommand(f *nodes.Flags) *cobra.Command {
	var flags top.Flags
	var chosen nodes.Selection
	var plain bool
	cmd := &cobra.Command{
		Use:   "top [-n NAMESPACE] [--node NODE] [--sort COLUMN] [--once]",
		Short: "Show live connection counts of Services, added up over all nodes",
		Long: `Show new connections per second and active connections of each Service, added up over
all nodes or those of --node, and, on Enter, of each frontend, endpoint and node of one
Service; ? explains the keys. If the output is not a terminal, print a block of lines per
interval.

A connection is counted on the node that translates it: that of the client, or the one
that a client outside connects to. Each query runs a command on every node, so the pause
before the next one is at least as long as it took. Nodes that do not answer are named,
and their connections are missing.

Problems and notices are numbers of Services; kubectl vmap problems lists them.`,
		Example: `  kubectl vmap top                   an interactive table; q quits
  kubectl vmap top -n shop --sort active
  kubectl vmap top --node node-1 --once | head`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Cluster(io.Discard) // a line of progress would spoil the screen
			if err != nil {
				return err
			}
			config := flags.Config(source(c, chosen), *f.Namespace)
			if plain || flags.Lines() || !isTerminal(config.Out) {
				return top.Run(cmd.Context(), config)
			}
			return screen.Run(cmd.Context(), config)
		},
	}
	cmd.DisableFlagsInUseLine = true
	flags.AddTo(cmd, interval)
	chosen.AddFlags(cmd.Flags(), "the default is all")
	cmd.Flags().BoolVar(&plain, "plain", false, "print lines even on a terminal")
	return cmd
}

// isTerminal reports whether w is an interactive terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}

// source asks the chosen nodes, which are listed again each time, since nodes come and go.
// It is an error if none answers.
func source(c *nodes.Cluster, chosen nodes.Selection) top.Source {
	return func(ctx context.Context, q status.Query) (a top.Answer, err error) {
		list, err := chosen.Select(ctx, c)
		if err != nil {
			return a, err
		}
		var failed []error
		nodes.Ask(ctx, c, list, func(ctx context.Context, n nodes.Node) (*status.Document, error) {
			return c.Document(ctx, n, q)
		}, func(n nodes.Node, d *status.Document, err error) {
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", n.Name, err))
				return
			}
			d.Node = n.Name
			a.Documents = append(a.Documents, d)
		})
		if len(a.Documents) == 0 && len(failed) > 0 {
			return a, fmt.Errorf("no node answers; the first of %d errors is %w", len(failed), failed[0])
		} else if len(a.Documents) == 0 {
			return a, errors.New("the cluster has no nodes")
		}
		slices.SortFunc(a.Documents, func(x, y *status.Document) int { return cmp.Compare(x.Node, y.Node) })
		for _, err := range failed {
			a.Failed = append(a.Failed, err.Error())
		}
		slices.Sort(a.Failed)
		return a, nil
	}
}
