package top

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/output"
)

// Flags are the flags of a command that shows connections.
type Flags struct {
	config               Config
	allNamespaces, watch bool
	cmd                  *cobra.Command
}

// AddTo adds the flags to the command; interval is the default interval.
func (f *Flags) AddTo(cmd *cobra.Command, interval time.Duration) {
	f.cmd = cmd
	flags := cmd.Flags()
	flags.BoolVarP(&f.watch, "watch", "w", false, "print the table again after each interval, until interrupted")
	flags.IntVar(&f.config.Count, "count", 1, "`number` of tables to print before exiting; 0 for no limit")
	flags.DurationVar(&f.config.Interval, "interval", interval,
		"over which rates are computed, at least "+MinInterval.String())
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "show Services of all namespaces; the default")
	flags.StringVar(&f.config.Sort, "sort", "rate", "sort by `column`: "+strings.Join(sorts(), ", "))
	flags.Bool("once", false, "print one table")
	output.JSON.AddFlag(cmd, &f.config.Output)
	// The only error is that the flag does not exist.
	_ = flags.MarkDeprecated("once", "it is the default")
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(sorts(), cobra.ShellCompDirectiveNoFileComp))
}

// Config returns what the flags ask for; namespace is the one of another flag.
func (f *Flags) Config(s Source, namespace string) Config {
	c := f.config
	c.Source, c.Namespace, c.Out, c.Err = s, namespace, f.cmd.OutOrStdout(), f.cmd.ErrOrStderr()
	if f.allNamespaces {
		c.Namespace = ""
	}
	if f.watch {
		c.Count = 0
	}
	return c
}

// Interval returns the interval of the flags.
func (f *Flags) Interval() time.Duration { return f.config.Interval }
