// Package diff is kubectl vmap diff: how the kernels of nodes differ from what kube-vmap
// wants there.
package diff

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/schema"
	"kube-vmap/cmd/kubectl-vmap/nodes"
)

// NewCommand returns kubectl vmap diff.
func NewCommand(f *nodes.Flags) *cobra.Command {
	var selection nodes.Selection
	cmd := &cobra.Command{
		Use:   "diff [--node NAME,...]",
		Short: "Show how the kernels of nodes differ from the wanted rule set",
		Long: `Compare the rule set in the kernel with the one that kube-vmap wants, on all nodes or on
some. After a line with the name of the node, each line is an element, rule, chain or
map: - for what should not be in the kernel, + for what is missing. Nodes without a
difference are counted only. Nothing is changed.

The exit code is 0 if there is no difference, 1 if there is one, and 2 if there is none
but a node did not answer, or on another error.`,
		Example: `  kubectl vmap diff
  kubectl vmap diff --node node-1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Cluster(cmd.ErrOrStderr())
			if err != nil {
				return &exit.Error{Code: exit.Trouble, Err: err}
			}
			list, err := selection.Select(cmd.Context(), c)
			if err != nil {
				return &exit.Error{Code: exit.Trouble, Err: err}
			}
			return run(cmd.Context(), c, list, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	exit.TroubleOnUsage(cmd)
	selection.AddFlags(cmd.Flags(), "all by default")
	return cmd
}

// run prints the differences of nodes as they answer.
func run(ctx context.Context, c *nodes.Cluster, list []nodes.Node, stdout, stderr io.Writer) error {
	var failures nodes.Failures
	var different []string
	var printErr error
	nodes.Ask(ctx, c, list, func(ctx context.Context, n nodes.Node) (d schema.Difference, err error) {
		return d, c.JSON(ctx, n, schema.OfDifference, &d, "diff", "-o", "json")
	}, func(n nodes.Node, d schema.Difference, err error) {
		failures.Add(n, err)
		if err != nil || len(d.Lines) == 0 || printErr != nil {
			return
		}
		different = append(different, n.Name)
		_, printErr = fmt.Fprintf(stdout, "%s:\n%s", n.Name, text(d.Lines))
	})
	if printErr != nil {
		return &exit.Error{Code: exit.Trouble, Err: fmt.Errorf("print the difference: %w", printErr)}
	}
	failed := failures.Err(stderr)
	_, _ = fmt.Fprintf(stderr, "%d of %d nodes differ.\n", len(different), failures.Answered())
	switch {
	case len(different) > 0:
		return &exit.Error{Code: 1, Err: failed}
	case failed != nil:
		return &exit.Error{Code: exit.Trouble, Err: failed}
	}
	return nil
}

// text returns the lines of a node. None can be taken for the name of another node.
func text(list []string) string {
	var b strings.Builder
	for _, l := range list {
		if !strings.HasPrefix(l, "+") && !strings.HasPrefix(l, "-") {
			l = "  " + l
		}
		b.WriteString(l + "\n")
	}
	return b.String()
}
