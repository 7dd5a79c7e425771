// Package versions is kubectl vmap version: the versions of the plugin and of the nodes.
package versions

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kubectl-vmap/nodes"
)

// NewCommand returns kubectl vmap version.
func NewCommand(f *nodes.Flags, version string) *cobra.Command {
	var client bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of kube-vmap on the nodes",
		Long: `Print the version of this program and those of kube-vmap on the nodes, each with the
nodes that run it if there are several. Nodes that do not answer are named.

The exit code is 1 if a node did not answer.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), "kubectl-vmap", version); err != nil || client {
				return err
			}
			c, err := f.Cluster(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return run(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&client, "client", false, "print the version of this program only")
	return cmd
}

// run prints the versions of the nodes.
func run(ctx context.Context, c *nodes.Cluster, stdout, stderr io.Writer) error {
	list, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	found := map[string][]string{} // nodes by version
	var failures nodes.Failures
	nodes.Ask(ctx, c, list, c.Version, func(n nodes.Node, version string, err error) {
		failures.Add(n, err)
		if err == nil {
			found[version] = append(found[version], n.Name)
		}
	})
	for _, version := range slices.Sorted(maps.Keys(found)) {
		names := found[version]
		slices.Sort(names)
		line := fmt.Sprintf("kube-vmap %s on %s", version, status.Plural(len(names), "node"))
		if len(found) > 1 {
			line += ": " + nodes.Names(names)
		}
		if _, err := fmt.Fprintln(stdout, line); err != nil {
			return err
		}
	}
	return failures.Err(stderr)
}
