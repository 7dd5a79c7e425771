package status

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/metadata"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kubectl-vmap/nodes"
)

// NewCommand returns kubectl vmap status.
func NewCommand(f *nodes.Flags) *cobra.Command {
	var selection nodes.Selection
	var format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how kube-vmap does its work on the nodes, problems first",
		Long: `Show how kube-vmap does its work on the nodes, one line for each, problems first. What
is wrong with single Services is shown by kubectl vmap problems.

  READY      the first state was programmed, and the pod is ready
  LAG        Services and EndpointSlices that are newer than what the node has seen
  REFUSED    Service ports that the kernel refuses, objects that cannot be used, and
             addresses and ports that another Service holds
  REPAIRS    of tables that another program changed, since kube-vmap started
  OWNED      IP families of the tables that no other program can change
  WARNINGS   and errors in the log, since kube-vmap started
  STATUS     the worst that there is to know, in words

A node that is behind when it is first asked is asked once more, 2 seconds later.
Deleted objects do not count as LAG. A node that does not answer costs --node-timeout.

The exit code is 0 if there are no problems, 1 if there are some, and 2 if not all nodes
could be asked, or not the API server. Notices are no problems.`,
		Example: `  kubectl vmap status
  kubectl vmap status -o wide --node node-1,node-2
  kubectl vmap status -o json | jq '.items[] | select(.lag.services > 0) | .node'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Table.Check(format); err != nil {
				return &exit.Error{Code: exit.Trouble, Err: err}
			}
			c, err := f.Cluster(cmd.ErrOrStderr())
			if err != nil {
				return &exit.Error{Code: exit.Trouble, Err: err}
			}
			return run(cmd.Context(), c, &selection, format, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	exit.TroubleOnUsage(cmd)
	selection.AddFlags(cmd.Flags(), "all if there is none")
	output.Table.AddFlag(cmd, &format)
	return cmd
}

// run asks the nodes and prints the answers.
func run(ctx context.Context, c *nodes.Cluster, s *nodes.Selection, format string, stdout, stderr io.Writer) error {
	client, err := metadata.NewForConfig(c.REST())
	if err != nil {
		return &exit.Error{Code: exit.Trouble, Err: fmt.Errorf("configure the client: %w", err)}
	}
	list, err := s.Select(ctx, c)
	if err != nil {
		return &exit.Error{Code: exit.Trouble, Err: err}
	}
	api, apiErr := readObjects(ctx, client) // before the nodes are asked
	if apiErr != nil {
		_, _ = fmt.Fprintln(stderr, "LAG is not known:", apiErr)
	}
	rows := ask(ctx, c, list, api)
	if err := write(stdout, format, rows); err != nil {
		return err
	}
	switch sum := summarize(rows); {
	case sum.Unknown > 0 || apiErr != nil:
		return &exit.Error{Code: exit.Trouble}
	case sum.Problems > 0:
		return &exit.Error{Code: 1}
	}
	return nil
}

// settle is how long a node may take to see a change before it counts as behind.
const settle = 2 * time.Second

// ask returns the rows of the nodes.
func ask(ctx context.Context, c *nodes.Cluster, list []nodes.Node, api objects) []Row {
	start := time.Now()
	rows := askOnce(ctx, c, list, api)
	behind := slices.DeleteFunc(slices.Clone(list), func(n nodes.Node) bool {
		lag := rows[n.Name].Lag
		return lag == nil || lag.Sum() == 0
	})
	if len(behind) > 0 {
		select {
		case <-time.After(settle - time.Since(start)):
		case <-ctx.Done():
		}
		for name, row := range askOnce(ctx, c, behind, api) {
			rows[name] = row
		}
	}
	out := make([]Row, 0, len(rows))
	for _, row := range rows {
		out = append(out, row)
	}
	sortRows(out)
	return out
}

// askOnce asks each node once, and returns the rows by name.
func askOnce(ctx context.Context, c *nodes.Cluster, list []nodes.Node, api objects) map[string]Row {
	rows := make(map[string]Row, len(list))
	nodes.Ask(ctx, c, list, func(ctx context.Context, n nodes.Node) (*status.Document, error) {
		return c.Document(ctx, n, status.Query{Health: true})
	}, func(n nodes.Node, d *status.Document, err error) { rows[n.Name] = newRow(n, d, err, api) })
	return rows
}
