// Package top is kubectl vmap top: the connections of Services on all nodes, added up live.
//
//	Selection --> asker: a Document of each node --> top.Answer --> screen, or lines
//
// Package cmd/inspect/top adds the nodes up, package screen has the interactive table.
package top

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

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
and their connections are missing; they are asked again after 4 s to 2 min, while others
keep their pace.

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
			config := flags.Config(nil, *f.Namespace)
			config.Source = newAsker(cmd.Context(), c, chosen, config.Interval).query
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
