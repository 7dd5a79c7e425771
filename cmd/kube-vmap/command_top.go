package main

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top"
	"kube-vmap/cmd/kube-vmap/config"
)

// topFlags are those of top.
type topFlags struct {
	config              top.Config
	socket              string
	allNamespaces       bool
	once, plain, counts bool
}

// topCommand shows connections as they come.
func topCommand(stdout, _ io.Writer) *cobra.Command {
	f := &topFlags{config: top.Config{Out: stdout}}
	cmd := &cobra.Command{
		Use:   "top [-n NAMESPACE] [--sort COLUMN] [--once]",
		Short: "Show live how many connections Services get",
		Long: `Show new connections per second and active connections of each Service on this
node, as the running kube-vmap knows them, and, on Enter, of each frontend and
endpoint of one Service; ? explains the keys. Where the output is no terminal, it is
a block of lines for each interval.

Problems and notices are numbers of Services, as kube-vmap get defines them by STATUS.
Problems of objects that are no Services are counted apart.`,
		Example: `  kube-vmap top                      a table to move in; q ends it
  kube-vmap top -n shop --sort active
  kube-vmap top --once | head        the busiest Services of one second
  kube-vmap top --count 60 > file    a minute, to read later`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.counts = cmd.Flags().Changed("count")
			return f.run(cmd.Context())
		},
	}
	cmd.DisableFlagsInUseLine = true
	f.add(cmd)
	return cmd
}

func (f *topFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.config.Interval, "interval", time.Second, "how often to look, at least "+top.LeastInterval.String())
	flags.StringVarP(&f.config.Namespace, "namespace", "n", "", "show Services of this `namespace` only")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "show Services of all namespaces; the default")
	flags.StringVar(&f.config.Sort, "sort", "rate", "`column` to sort by at first: "+strings.Join(top.Sorts(), ", "))
	flags.StringVar(&f.socket, "status-socket", config.StatusSocket, "`socket` of the kube-vmap to ask")
	flags.BoolVar(&f.once, "once", false, "print one block of lines, of one interval, and end")
	flags.BoolVar(&f.plain, "plain", false, "print lines on a terminal, too")
	flags.IntVar(&f.config.Count, "count", 0, "print so `many` blocks of lines and end; 0 for no end")
}

func (f *topFlags) run(ctx context.Context) error {
	c := f.config
	if f.allNamespaces {
		c.Namespace = ""
	}
	if f.once {
		c.Count = 1
	}
	c.Screen = !f.once && !f.plain && !f.counts && isTerminal(c.Out)
	c.Source = func(ctx context.Context, q status.Query) (*status.Document, error) {
		return status.Get(ctx, f.socket, q)
	}
	return top.Run(ctx, c)
}

// isTerminal reports whether a person may be looking at what is written there. A
// terminal that can do nothing but lines gets lines.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}
