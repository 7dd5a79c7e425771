package top

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Flags are the flags of a command that shows connections.
type Flags struct {
	config        Config
	allNamespaces bool
	once          bool
	cmd           *cobra.Command
}

// AddTo adds the flags to the command; interval is the default interval.
func (f *Flags) AddTo(cmd *cobra.Command, interval time.Duration) {
	f.cmd = cmd
	flags := cmd.Flags()
	flags.DurationVar(&f.config.Interval, "interval", interval, "refresh interval, at least "+MinInterval.String())
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "show Services of all namespaces; the default")
	flags.StringVar(&f.config.Sort, "sort", "rate", "initial sort `column`: "+strings.Join(sorts(), ", "))
	flags.BoolVar(&f.once, "once", false, "print one block of lines for one interval, and exit")
	flags.IntVar(&f.config.Count, "count", 0, "`number` of blocks of lines to print before exiting; 0 for no limit")
	// The only error is that the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(sorts(), cobra.ShellCompDirectiveNoFileComp))
}

// Lines reports whether the flags ask for lines, whatever the output is.
func (f *Flags) Lines() bool { return f.once || f.cmd.Flags().Changed("count") }

// Config returns what the flags ask for; namespace is the one of another flag.
func (f *Flags) Config(s Source, namespace string) Config {
	c := f.config
	c.Source, c.Namespace, c.Out = s, namespace, f.cmd.OutOrStdout()
	if f.allNamespaces {
		c.Namespace = ""
	}
	if f.once {
		c.Count = 1
	}
	return c
}
