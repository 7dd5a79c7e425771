// Package top is kubectl vmap top: the connections of Services on all nodes, added up.
//
//	Selection --> source: a Document of each node --> top.Answer --> table, by cmd/inspect/top
package top

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/top"
	"kube-vmap/cmd/kubectl-vmap/nodes"
)

// interval is the default interval: each query runs a command on every node.
const interval = 2 * time.Second

// NewCommand returns kubectl vmap top.
func NewCommand(f *nodes.Flags) *cobra.Command {
	var flags top.Flags
	var chosen nodes.Selection
	cmd := &cobra.Command{
		Use:   "top [-n NAMESPACE] [--node NODE] [--sort COLUMN] [-w]",
		Short: "Print connection counts of Services, added up over all nodes",
		Long: `Print new connections per second and active connections of each Service, added up over
all nodes or those of --node: once, over one interval, or with -w again after each. Frontends
and endpoints of one Service are shown by kubectl vmap get.

A connection is counted on the node that translates it: that of the client, or the one
that a client outside connects to. Each query runs a command on every node, so the pause
before the next one is at least as long as it took. Nodes that do not answer are named on
stderr, and their connections are missing; with -w they are asked again after 4 s to 2 min.

Problems and notices are numbers of Services; kubectl vmap problems lists them.`,
		Example: `  kubectl vmap top | head
  kubectl vmap top -n shop --sort active -w
  kubectl vmap top --node node-1 -o json | jq '.items[] | select(.rate > 100) | .name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Cluster(io.Discard) // it would report progress for each table
			if err != nil {
				return err
			}
			s := source{c, chosen, flags.Interval(), map[string]failure{}}
			return top.Run(cmd.Context(), flags.Config(s.query, *f.Namespace))
		},
	}
	cmd.DisableFlagsInUseLine = true
	flags.AddTo(cmd, interval)
	chosen.AddFlags(cmd.Flags(), "the default is all")
	return cmd
}
