package top

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/status/client"
)

// commandFlags are the flags of kube-vmap top.
type commandFlags struct {
	config              Config
	socket              string
	allNamespaces       bool
	once, plain, counts bool
}

// NewCommand returns kube-vmap top.
func NewCommand() *cobra.Command {
	f := &commandFlags{}
	cmd := &cobra.Command{
		Use:   "top [-n NAMESPACE] [--sort COLUMN] [--once]",
		Short: "Show live connection counts of Services",
		Long: `Show new connections per second and active connections of each Service on this
node, as the running kube-vmap reports them, and, on Enter, of each frontend and
endpoint of one Service; ? explains the keys. If the output is not a terminal, print
a block of lines per interval.

Problems and notices are numbers of Services, as kube-vmap get defines them by STATUS.
Problems of other objects are counted separately.`,
		Example: `  kube-vmap top                      an interactive table; q quits
  kube-vmap top -n shop --sort active
  kube-vmap top --once | head        the busiest Services of one second
  kube-vmap top --count 60 > file    record a minute`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.counts, f.config.Out = cmd.Flags().Changed("count"), cmd.OutOrStdout()
			return f.run(cmd.Context())
		},
	}
	cmd.DisableFlagsInUseLine = true
	f.add(cmd)
	return cmd
}

func (f *commandFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.config.Interval, "interval", time.Second, "refresh interval, at least "+MinInterval.String())
	flags.StringVarP(&f.config.Namespace, "namespace", "n", "", "show Services of this `namespace` only")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "show Services of all namespaces; the default")
	flags.StringVar(&f.config.Sort, "sort", "rate", "initial sort `column`: "+strings.Join(sorts(), ", "))
	client.AddSocketFlag(flags, &f.socket)
	flags.BoolVar(&f.once, "once", false, "print one block of lines for one interval, and exit")
	flags.BoolVar(&f.plain, "plain", false, "print lines even on a terminal")
	flags.IntVar(&f.config.Count, "count", 0, "`number` of blocks of lines to print before exiting; 0 for no limit")
	// The only error is that the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(sorts(), cobra.ShellCompDirectiveNoFileComp))
}

func (f *commandFlags) run(ctx context.Context) error {
	c := f.config
	if f.allNamespaces {
		c.Namespace = ""
	}
	if f.once {
		c.Count = 1
	}
	c.Screen = !f.once && !f.plain && !f.counts && isTerminal(c.Out)
	c.Source = func(ctx context.Context, q status.Query) (*status.Document, error) {
		return client.Get(ctx, f.socket, q)
	}
	return Run(ctx, c)
}

// isTerminal reports whether w is an interactive terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}
