// Package top is kube-vmap top: new and active connections of Services, of one node or added
// up over several, as a table that is printed once or again and again.
//
//	Nodes --answer: a Document of each node--> rates, by node --> Table --sorted--> text, JSON
//	                                             ^
//	                                    the node's reading before
//
// A rate is the difference of a node's counters between two reads, by the times in its
// documents, so the first answer is only compared with. There is one query at a time, and a
// pause of at least the duration of the last answer, so a node with very many Services
// is not kept busy.
package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

const (
	// MinInterval is the minimum interval between queries.
	MinInterval = 200 * time.Millisecond
	// readInterval is how often a node reads its counters.
	readInterval = time.Second
	// queryTimeout is the minimum timeout of a query, much more than the largest document takes.
	queryTimeout = 15 * time.Second
)

// Config is what is printed.
type Config struct {
	Nodes     nodes.Nodes
	Namespace string        // of the Services; empty means all
	Endpoints bool          // whether rows are endpoints rather than Services
	Interval  time.Duration // between queries; at least MinInterval
	Sort      string        // one of the columns' words
	Count     int           // number of tables; zero means no limit
	Output    string        // empty for a table, or json, yaml
	Idle      bool          // whether tables have rows without connections, too
	Limit     int           // of rows; zero means no limit
	Out, Err  io.Writer
}

// Validate checks a configuration. Errors name the flags.
func (c *Config) Validate() error {
	switch {
	case c.Interval < MinInterval:
		return fmt.Errorf("--interval: %s is less than %s", c.Interval, MinInterval)
	case c.Count < 0:
		return fmt.Errorf("--count: %d is less than 0", c.Count)
	case c.Limit < 0:
		return fmt.Errorf("--limit: %d is less than 0", c.Limit)
	case !slices.Contains(sorts(), c.Sort):
		return fmt.Errorf("--sort: %q is not one of %s", c.Sort, strings.Join(sorts(), ", "))
	}
	return cmp.Or(nodestatus.CheckNamespace(c.Namespace), output.Objects.Check(c.Output))
}

// Run prints tables until there are enough or the context ends, which is no error. An error of
// the first or last query is returned; others are printed, since the next query may succeed.
func Run(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	before, from := readings{}, reader{c.Nodes, map[string]failure{}}
	wait := max(c.Interval, readInterval) // otherwise the first table might have no rates
	for n := 0; n <= c.Count || c.Count == 0; n++ {
		if n > 0 && !pause(ctx, wait) {
			return nil
		}
		start := time.Now()
		a, err := c.read(ctx, &from)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end causes the error
		case err != nil && (n == 0 || n == c.Count):
			return err
		case err != nil:
			_, _ = fmt.Fprintln(c.Err, "error:", output.Clean(err.Error()))
		default:
			if t := newTable(a, before, c.Endpoints); n > 0 { // the first is only compared with
				err = c.print(t, n > 1)
			}
			if errors.Is(err, syscall.EPIPE) {
				return nil // the reader has seen enough
			}
			if err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		if n > 0 {
			wait = max(c.Interval, time.Since(start))
		}
	}
	return nil
}

// read reads the nodes. Endpoints are only counted unless they are shown, to keep documents small.
func (c *Config) read(ctx context.Context, from *reader) (answer, error) {
	ctx, stop := context.WithTimeout(ctx, max(queryTimeout, c.Interval))
	defer stop()
	return from.read(ctx, nodestatus.Query{Namespace: c.Namespace, Brief: !c.Endpoints})
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// NewCommand returns the command; interval is the default one.
func NewCommand(from nodes.Nodes, program string, interval time.Duration) *cobra.Command {
	c := Config{Nodes: from}
	var all, watch bool
	cmd := &cobra.Command{
		Use:   "top [-n NAMESPACE] [--sort COLUMN] [-w]",
		Short: "Print connection counts of Services or endpoints",
		Long: `Print new connections per second and active connections of each Service, or with --endpoints
of each endpoint: once, over one interval, or with -w again after each. kube-vmap top shows
this node, kubectl vmap top adds up all nodes, or the ones that --node names.

A connection is counted on the node that translates it: the client's, or the one that a
client outside connects to. In a cluster, each query runs a command on every node,
and the pause before the next one is at least as long as it took. Nodes that do not answer
are named on stderr, and their connections are missing; with -w they are asked again after
30 s, or immediately if no other node answers.

Problems and notices are numbers of Services, as get defines them by STATUS; problems lists
them. Problems of other objects are counted separately.`,
		Example: strings.ReplaceAll(`  PROGRAM top | head
  PROGRAM top -n shop --endpoints --sort active -w
  PROGRAM top -o json | jq '.items[] | select(.rate > 100) | .name'`, "PROGRAM", program),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.Namespace, _, err = from.Namespace(); err != nil {
				return err
			}
			if all {
				c.Namespace = ""
			}
			if watch {
				c.Count = 0
			}
			c.Out, c.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return Run(cmd.Context(), c)
		},
	}
	cmd.DisableFlagsInUseLine = true
	flags := cmd.Flags()
	flags.BoolVarP(&watch, "watch", "w", false, "print the table again after each interval, until interrupted")
	flags.IntVar(&c.Count, "count", 1, "`number` of tables to print before exiting; 0 for no limit")
	flags.DurationVar(&c.Interval, "interval", interval, "over which rates are computed, at least "+MinInterval.String())
	flags.BoolVarP(&all, "all-namespaces", "A", false, "show Services of all namespaces; the default")
	flags.StringVar(&c.Sort, "sort", "rate", "sort by `column`: "+strings.Join(sorts(), ", "))
	flags.Bool("once", false, "print one table")
	flags.BoolVarP(&c.Idle, "all", "a", false, "print rows without connections, too")
	flags.BoolVar(&c.Endpoints, "endpoints", false, "print a row for each endpoint")
	flags.IntVar(&c.Limit, "limit", 0, "print at most this number of `rows`; 0 for no limit")
	output.Objects.AddFlag(cmd, &c.Output)
	from.AddFlags(cmd)
	// The only error is that the flag does not exist.
	_ = flags.MarkDeprecated("once", "it is the default")
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(sorts(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
