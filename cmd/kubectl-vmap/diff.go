package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/schema"
	"kube-vmap/cmd/kubectl-vmap/cluster"
)

func diffCommand(f *cluster.Flags) *cobra.Command {
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
	}
	r := f.Nodes("all by default")
	r.AddFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := r.Find(cmd.Context())
		if err != nil {
			return err
		}
		return diff(cmd.Context(), r, list, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return exit.TroubleOnError(cmd)
}

func diff(ctx context.Context, r *cluster.Nodes, list nodes.List, stdout, stderr io.Writer) error {
	different := 0
	failures, err := nodes.Answers(ctx, list, func(ctx context.Context, n nodes.Node) (d schema.Difference, err error) {
		err = r.JSON(ctx, n, schema.OfDifference, &d, "diff", "-o", "json")
		return d, err
	}, func(n nodes.Node, d schema.Difference) error {
		if len(d.Lines) == 0 {
			return nil
		}
		different++
		_, err := fmt.Fprintf(stdout, "%s:\n  %s\n", n.Name, strings.Join(d.Lines, "\n  "))
		return err
	})
	if err != nil {
		return fmt.Errorf("print the difference: %w", err)
	}
	failed := failures.Err(stderr)
	_, _ = fmt.Fprintf(stderr, "%d of %d nodes differ.\n", different, failures.Answered())
	if different > 0 {
		return &exit.Error{Code: 1, Err: failed}
	}
	return failed
}
