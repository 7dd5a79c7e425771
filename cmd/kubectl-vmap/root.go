package main

import (
	"io"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/kubectl-vmap/explain"
	"kube-vmap/cmd/kubectl-vmap/nodes"
	"kube-vmap/cmd/kubectl-vmap/versions"
)

// rootCommand returns the command with its subcommands.
func rootCommand(stdout, stderr io.Writer) *cobra.Command {
	flags := nodes.NewFlags()
	root := &cobra.Command{
		Use:   "vmap",
		Short: "Ask the nodes of a cluster what kube-vmap programs there",
		Long: `Ask the nodes of a cluster what kube-vmap, their Service proxy, programs there. The
answers come from the pods of kube-vmap, in which "/kube-vmap" runs as by kubectl exec, and
from the API server. Nothing is changed.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl vmap"},
		Args:          cobra.NoArgs,
		Version:       version,
		SilenceErrors: true, // run prints them, in one line
		SilenceUsage:  true,
	}
	flags.AddFlags(root.PersistentFlags())
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(explain.NewCommand(flags))
	root.AddCommand(versions.NewCommand(flags, version))
	return root
}
