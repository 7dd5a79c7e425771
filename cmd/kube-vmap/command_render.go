package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
	"kube-vmap/sync/manifests"
)

func renderCommand(stdout, stderr io.Writer) *cobra.Command {
	flags, fromKernel := config.NewFlags(), false
	cmd := &cobra.Command{
		Use:   "render [--manifests DIR | --kernel] [FLAGS]",
		Short: "Print a rule set as nft text: the wanted one, that of manifests, or the kernel's",
		Long: `Print the rule set that the kube-vmap which runs here wants, as text for "nft -f";
or the one that a folder of manifests leads to, with the flags that the proxy
has. Objects that cannot be programmed are left out and named on stderr; the exit
code is then 1. What does not shape the rule set has no effect.

With --kernel, print what the kernel holds. Rules are told by what is known of
them: those of the running kube-vmap, or those that the flags lead to.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := lookOnly(flags)
			switch {
			case err != nil:
				return err
			case fromKernel && c.Manifests != "":
				return errors.New("--kernel: not together with --manifests")
			case fromKernel:
				loop, err := loopConfig(c)
				if err != nil {
					return err
				}
				return renderKernel(cmd.Context(), c.StatusSocket(), loop.Rules, stdout)
			case c.Manifests != "":
				return render(c, stdout, stderr)
			}
			return ask(cmd.Context(), c.StatusSocket(), pathRules, stdout)
		},
	}
	withFlags(cmd, flags)
	cmd.Flags().BoolVar(&fromKernel, "kernel", false, "print what the kernel holds")
	return cmd
}

// render prints what the manifests lead to.
func render(c *config.Config, stdout, stderr io.Writer) error {
	loop, err := loopConfig(c)
	if err != nil {
		return err
	}
	events, problems := manifests.Load(c.Manifests, loop.NodeName)
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

// renderKernel prints what the kernel holds. If a kube-vmap runs here, and is not
// stopped, it knows which rules are its own; else a configuration tells.
func renderKernel(ctx context.Context, socket string, rules nft.Config, w io.Writer) error {
	err := ask(ctx, socket, pathKernel, w)
	if !errors.Is(err, status.ErrNobody) && !errors.Is(err, status.ErrSilent) {
		return err
	}
	return withKernel(func(k *kernel.Kernel) error { return readKernel(k, rules, w) })
}

// report prints what is wrong with the manifests and returns an error if
// anything had to be left out.
func report(problems []error, stderr io.Writer) error {
	leftOut := 0
	for _, p := range problems {
		_, _ = fmt.Fprintln(stderr, p) // there is no other place to say it
		var m *manifests.Error
		if !errors.As(p, &m) || !m.Warning {
			leftOut++
		}
	}
	if leftOut > 0 {
		return fmt.Errorf("%d things were left out", leftOut)
	}
	return nil
}
