package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/schema"
	"kube-vmap/cmd/kubectl-vmap/nodes"
)

func diffCommand(f *nodes.Flags) *cobra.Command {
	return nodes.Trouble(f.Command(&cobra.Command{
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
	}, "all by default", diff))
}

func diff(ctx context.Context, r *nodes.Request) error {
	different := 0
	failures, err := nodes.Answers(ctx, r, func(ctx context.Context, n nodes.Node) (d schema.Difference, err error) {
		err = r.JSON(ctx, n, schema.OfDifference, &d, "diff", "-o", "json")
		return d, err
	}, func(n nodes.Node, d schema.Difference) error {
		if len(d.Lines) == 0 {
			return nil
		}
		different++
		_, err := fmt.Fprintf(r.Stdout, "%s:\n  %s\n", n.Name, strings.Join(d.Lines, "\n  "))
		return err
	})
	if err != nil {
		return fmt.Errorf("print the difference: %w", err)
	}
	failed := failures.Err(r.Stderr)
	_, _ = fmt.Fprintf(r.Stderr, "%d of %d nodes differ.\n", different, failures.Answered())
	if different > 0 {
		return &exit.Error{Code: 1, Err: failed}
	}
	return failed
}
