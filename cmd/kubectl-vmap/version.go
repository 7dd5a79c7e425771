package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/cluster"
)

func versionCommand(f *cluster.Flags) *cobra.Command {
	var client bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of kube-vmap on the nodes",
		Long: `Print the versions of this program and of kube-vmap on the nodes, each with the
nodes that run it if there are several. Nodes that do not answer are named.

The exit code is 1 if a node did not answer.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), "kubectl-vmap", version); err != nil || client {
				return err
			}
			return printVersions(cmd, f.Nodes(""))
		},
	}
	cmd.Flags().BoolVar(&client, "client", false, "print the version of this program only")
	return cmd
}

func printVersions(cmd *cobra.Command, r *cluster.Nodes) error {
	list, err := r.Find(cmd.Context())
	if err != nil {
		return err
	}
	found := map[string][]string{} // nodes by version
	failures, _ := nodes.Answers(cmd.Context(), list, r.Cluster.Version, func(n nodes.Node, version string) error {
		found[version] = append(found[version], n.Name)
		return nil
	})
	for _, version := range slices.Sorted(maps.Keys(found)) {
		names := slices.Sorted(slices.Values(found[version]))
		line := fmt.Sprintf("kube-vmap %s on %s", version, nodestatus.Plural(len(names), "node"))
		if len(found) > 1 {
			line += ": " + nodes.Names(names)
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
			return err
		}
	}
	return failures.Err(cmd.ErrOrStderr())
}
