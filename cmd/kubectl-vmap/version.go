package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/nodes"
)

func versionCommand(f *nodes.Flags) *cobra.Command {
	var client bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of kube-vmap on the nodes",
		Long: `Print the version of this program and those of kube-vmap on the nodes, each with the
nodes that run it if there are several. Nodes that do not answer are named.

The exit code is 1 if a node did not answer.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := nodes.Request{Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}
			if _, err := fmt.Fprintln(r.Stdout, "kubectl-vmap", version); err != nil || client {
				return err
			}
			if err := r.Find(cmd.Context(), f); err != nil {
				return err
			}
			return printVersions(cmd.Context(), &r)
		},
	}
	cmd.Flags().BoolVar(&client, "client", false, "print the version of this program only")
	return cmd
}

// printVersions prints the versions of the nodes.
func printVersions(ctx context.Context, r *nodes.Request) error {
	found := map[string][]string{} // nodes by version
	failures, _ := nodes.Answers(ctx, r, r.Version, func(n nodes.Node, version string) error {
		found[version] = append(found[version], n.Name)
		return nil
	})
	for _, version := range slices.Sorted(maps.Keys(found)) {
		names := slices.Sorted(slices.Values(found[version]))
		line := fmt.Sprintf("kube-vmap %s on %s", version, nodestatus.Plural(len(names), "node"))
		if len(found) > 1 {
			line += ": " + nodes.Names(names)
		}
		if _, err := fmt.Fprintln(r.Stdout, line); err != nil {
			return err
		}
	}
	return failures.Err(r.Stderr)
}
