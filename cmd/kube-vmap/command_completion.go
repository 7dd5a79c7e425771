package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/top"
	"kube-vmap/cmd/kube-vmap/config"
)

// completionCommand is ours and not cobra's, which has a shell that no node has, and
// subcommands of subcommands for it.
func completionCommand(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print what has a shell complete commands, flags and their values",
		Long: `Print a script that has a shell complete commands, flags and their values. It asks
this program, which needs neither root nor a kube-vmap that runs. The one for bash
takes the package bash-completion.`,
		Example: `  kube-vmap completion bash > /etc/bash_completion.d/kube-vmap
  kube-vmap completion zsh > "${fpath[1]}/_kube-vmap"
  kube-vmap completion fish > ~/.config/fish/completions/kube-vmap.fish`,
		ValidArgs:             []string{"bash", "zsh", "fish"},
		Args:                  cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		DisableFlagsInUseLine: true,
		RunE:                  func(cmd *cobra.Command, args []string) error { return completion(cmd.Root(), args[0], stdout) },
	}
}

// completion prints the script for a shell.
func completion(root *cobra.Command, shell string, stdout io.Writer) error {
	write := map[string]func() error{
		"bash": func() error { return root.GenBashCompletionV2(stdout, true) },
		"zsh":  func() error { return root.GenZshCompletion(stdout) },
		"fish": func() error { return root.GenFishCompletion(stdout, true) },
	}[shell]
	if err := write(); err != nil {
		return fmt.Errorf("print the completion for %s: %w", shell, err)
	}
	return nil
}

// flagValues are the words that flags take, by the command, "" being all those with
// the flags of the proxy, and the flag. Other flags complete files.
func flagValues() map[[2]string][]string {
	return map[[2]string][]string{
		{"", "proxy-mode"}: {string(config.ModeNFTables), string(config.ModeIPTables), string(config.ModeIPVS)},
		{"", "detect-local-mode"}: {
			string(config.LocalModeClusterCIDR), string(config.LocalModeNodeCIDR),
			string(config.LocalModeBridgeInterface), string(config.LocalModeInterfaceNamePrefix),
		},
		{"", "ipvs-scheduler"}:     {"random", "rr", "sh", "mh"},
		{"", "nodeport-addresses"}: {"primary", "localhost"},
		{"", "logging-format"}:     {"text", "json"},
		{"", "feature-gates"}:      {"AllowServiceExternalIPs=false", "ComponentFlagz=false", "ComponentStatusz=false"},
		{"", "v"}:                  {"0", "2", "4"},
		{"get", "output"}:          {"wide", "json", "yaml", "name"},
		{"top", "sort"}:            top.Sorts(),
	}
}

// completeValues has the flags of a command and of those below it complete the words
// that they take. Commands may have seen to that themselves.
func completeValues(cmd *cobra.Command) {
	for of, values := range flagValues() {
		proxys := of[0] == "" && cmd.Flags().Lookup("proxy-mode") != nil
		if flag := cmd.Flags().Lookup(of[1]); flag == nil || !proxys && of[0] != cmd.Name() {
			continue
		}
		if _, there := cmd.GetFlagCompletionFunc(of[1]); !there {
			// The one error there is, that it is there already, it is not.
			_ = cmd.RegisterFlagCompletionFunc(of[1], cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for _, sub := range cmd.Commands() {
		completeValues(sub)
	}
}
