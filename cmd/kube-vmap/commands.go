package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/sync"
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
		Args:          cobra.NoArgs,
		Version:       version,
		SilenceErrors: true, // run prints them, in one line
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return start(cmd.Context(), cmd, flags)
		},
	}
	withFlags(root, flags)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.Flags().Bool("version", false, "print the version and exit")
	root.AddCommand(renderCommand(stdout, stderr), cleanupCommand(), versionCommand(stdout))
	return root
}

func renderCommand(stdout, stderr io.Writer) *cobra.Command {
	flags := config.NewFlags()
	cmd := &cobra.Command{
		Use:   "render --manifests DIR [FLAGS]",
		Short: "Print the rule set as nft text, without touching the kernel",
		Long: `Print the rule set that the manifests lead to, as text for "nft -f". Objects
that cannot be programmed are left out and named on stderr; the exit code is
then 1. The flags are those of the proxy; what does not shape the rule set has
no effect.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return render(flags, stdout, stderr) },
	}
	withFlags(cmd, flags)
	return cmd
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
		_, err := fmt.Fprintf(c.OutOrStderr(), "%s\n%s", &text, flags.Usages(helpColumns))
		return err
	})
}

func cleanupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cleanup",
		Short: "Remove the rule set from the kernel, as --cleanup does",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return cleanup() },
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

// render prints what the manifests lead to.
func render(flags *config.Flags, stdout, stderr io.Writer) error {
	c, err := flags.Config()
	if err != nil {
		return err
	}
	if c.Manifests == "" {
		return errors.New("--manifests: must name a folder or a file")
	}
	loop, err := loopConfig(c)
	if err != nil {
		return err
	}
	events, problems := sync.Load(c.Manifests, loop.NodeName)
	if events == nil {
		return errors.Join(problems...)
	}
	rules, conflicts := sync.Build(loop, events)
	for _, c := range conflicts {
		problems = append(problems, fmt.Errorf("%s: held by %s, not given to %s", c.Match, c.Winner, c.Loser))
	}
	if err := rules.Render(stdout); err != nil {
		return fmt.Errorf("print the rule set: %w", err)
	}
	return report(problems, stderr)
}

// report prints what is wrong with the manifests and returns an error if
// anything had to be left out.
func report(problems []error, stderr io.Writer) error {
	leftOut := 0
	for _, p := range problems {
		_, _ = fmt.Fprintln(stderr, p) // there is no other place to say it
		var m *sync.ManifestError
		if !errors.As(p, &m) || !m.Warning {
			leftOut++
		}
	}
	if leftOut > 0 {
		return fmt.Errorf("%d things were left out", leftOut)
	}
	return nil
}
