package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// completionCommand replaces cobra's own, which adds a subcommand per shell and
// PowerShell, which no node has.
func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Generate a shell completion script",
		Long: `Generate a shell completion script for commands, flags and their values. It runs this
program, which needs neither root nor a running kube-vmap for that. The script for bash
needs the package bash-completion.`,
		Example: `  kube-vmap completion bash > /etc/bash_completion.d/kube-vmap
  kube-vmap completion zsh > "${fpath[1]}/_kube-vmap"
  kube-vmap completion fish > ~/.config/fish/completions/kube-vmap.fish`,
		ValidArgs:             []string{"bash", "zsh", "fish"},
		Args:                  cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				err = root.GenBashCompletionV2(out, true)
			case "zsh":
				err = root.GenZshCompletion(out)
			case "fish":
				err = root.GenFishCompletion(out, true)
			}
			if err != nil {
				return fmt.Errorf("print the completion for %s: %w", args[0], err)
			}
			return nil
		},
	}
}
