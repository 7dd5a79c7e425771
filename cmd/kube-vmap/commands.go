package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/logring"
)

// rootCommand is the proxy itself with its subcommands.
func rootCommand(stdout, stderr io.Writer) *cobra.Command {
	flags := config.NewFlags()
	root := &cobra.Command{
		Use:   "kube-vmap [--config FILE | FLAGS]",
		Short: "A Kubernetes Service proxy for nodes with nftables",
		Long: `kube-vmap runs as the Service proxy of the node it is started on, in the place
of kube-proxy and with kube-proxy's flags and configuration file: it reads
Services and EndpointSlices and keeps nftables as they say, one netlink
transaction for each change. Rules stay when it ends; "kube-vmap cleanup"
removes them.`,
		Example: `  kube-vmap --config /var/lib/kube-proxy/config.conf
  kube-vmap --kubeconfig FILE --cluster-cidr 10.244.0.0/16,fd00:10:244::/56 -v 2
  kube-vmap --manifests DIR --hostname-override node-1`,
		Args:          cobra.NoArgs,
		Version:       version,
		SilenceErrors: true, // run prints them, in one line
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return start(cmd.Context(), cmd, flags)
		},
	}
	withFlags(root, flags)
	root.CompletionOptions.DisableDefaultCmd = true // there is ours
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.Flags().Bool("version", false, "print the version and exit")
	root.AddCommand(renderCommand(stdout, stderr), cleanupCommand(stderr), versionCommand(stdout))
	root.AddCommand(getCommand(stdout, stderr))
	root.AddCommand(explainCommand(stdout, stderr))
	root.AddCommand(topCommand(stdout, stderr))
	root.AddCommand(diffCommand(stdout, stderr), bundleCommand(stdout, stderr))
	root.AddCommand(completionCommand(stdout))
	completeValues(root) // of all commands, so it is the last
	return root
}

// helpColumns is how wide help is.
const helpColumns = 110

// withFlags adds flags to a command, whose help then shows them in sections.
func withFlags(cmd *cobra.Command, flags *config.Flags) {
	flags.AddTo(cmd.Flags())
	cmd.DisableFlagsInUseLine = true
	plain := (&cobra.Command{}).UsageFunc()
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		if c != cmd {
			return plain(c) // a subcommand without these flags
		}
		var text strings.Builder
		fmt.Fprintf(&text, "Usage:\n  %s\n", c.UseLine())
		for i, sub := range c.Commands() {
			if i == 0 {
				fmt.Fprintf(&text, "  %s COMMAND\n\nCommands:\n", c.CommandPath())
			}
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&text, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
		if own := ownFlags(c, flags); own.HasFlags() {
			fmt.Fprintf(&text, "\nOf this command:\n%s", own.FlagUsagesWrapped(helpColumns))
		}
		_, err := fmt.Fprintf(c.OutOrStderr(), "%s\n%s", &text, flags.Usages(helpColumns))
		return err
	})
}

// ownFlags are those of a command that are not the proxy's.
func ownFlags(c *cobra.Command, flags *config.Flags) *pflag.FlagSet {
	proxy, own := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.AddTo(proxy)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if proxy.Lookup(f.Name) == nil && f.Name != "help" && f.Name != "version" {
			own.AddFlag(f)
		}
	})
	return own
}

func cleanupCommand(stderr io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "cleanup",
		Short: "Remove the rule set from the kernel, as --cleanup does",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			log, _ := newLogger(&config.Config{}, stderr, &logring.Log{})
			return cleanup(log)
		},
	}
}

func versionCommand(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(stdout, "kube-vmap", version)
			return err
		},
	}
}
