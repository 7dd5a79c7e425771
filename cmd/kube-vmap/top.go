package main

import (
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/inspect/top"
)

// topCommand returns kube-vmap top.
func topCommand() *cobra.Command {
	var f top.Flags
	var socket, namespace string
	cmd := &cobra.Command{
		Use:   "top [-n NAMESPACE] [--sort COLUMN] [-w]",
		Short: "Print connection counts of Services",
		Long: `Print new connections per second and active connections of each Service on this
node, as the running kube-vmap reports them: once, over one interval, or with -w again
after each. "kubectl vmap top" adds up all nodes.

Problems and notices are numbers of Services, as kube-vmap get defines them by STATUS.
Problems of other objects are counted separately.`,
		Example: `  kube-vmap top | head               the busiest Services of one second
  kube-vmap top -n shop --sort active -w
  kube-vmap top --count 60 > file    record a minute`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return top.Run(cmd.Context(), f.Config(top.OneNode(client.Client{Socket: socket}.Get), namespace))
		},
	}
	cmd.DisableFlagsInUseLine = true
	f.AddTo(cmd, time.Second)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "show Services of this `namespace` only")
	client.AddSocketFlag(cmd.Flags(), &socket)
	return cmd
}
