package config

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpColumns is the width of help.
const helpColumns = 110

// AddToCommand adds all flags to a command, whose help then shows them in sections and
// whose completion knows their values.
func (f *Flags) AddToCommand(cmd *cobra.Command) {
	f.AddTo(cmd.Flags())
	f.visit(func(flag *pflag.Flag) {
		if words := flag.Annotations[wordsKey]; len(words) > 0 {
			// The only error is that the flag is missing or has a function already.
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	cmd.DisableFlagsInUseLine = true
	defaultUsage := (&cobra.Command{}).UsageFunc()
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		if c != cmd {
			return defaultUsage(c) // a subcommand without these flags
		}
		_, err := fmt.Fprint(c.OutOrStderr(), f.usage(c))
		return err
	})
}

// usage returns the help of a command with these flags.
func (f *Flags) usage(c *cobra.Command) string {
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
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Annotations[sectionKey] == nil && flag.Name != "help" && flag.Name != "version" {
			own.AddFlag(flag)
		}
	})
	if own.HasFlags() {
		fmt.Fprintf(&text, "\nOf this command:\n%s", own.FlagUsagesWrapped(helpColumns))
	}
	return text.String() + "\n" + f.Usages(helpColumns)
}
