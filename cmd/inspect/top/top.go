// Package top is kube-vmap top: new and active connections of Services, of one node or added
// up over several, as a table that is printed once or again and again.
//
//	Source --Answer: a Document of each node--> rates, by node --> Table --sorted--> text, JSON
//	                                              ^
//	                                     the node's reading before
//
// A rate is the difference of a node's counters between two reads, by the times in its
// documents, so the first answer is only compared with. There is one query at a time, and a
// pause of at least the duration of the last answer, so that a node with very many Services
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

// An Answer is the state of nodes at one moment.
type Answer struct {
	Documents []*nodestatus.Document
	// Failed has a line for each node that did not answer.
	Failed []string
}

// Source returns the answer to a query. Its documents must not change later.
type Source func(ctx context.Context, q nodestatus.Query) (Answer, error)

// OneNode returns a source of one node's documents.
func OneNode(get nodestatus.Source) Source {
	return func(ctx context.Context, q nodestatus.Query) (Answer, error) {
		d, err := get(ctx, q)
		if err != nil {
			return Answer{}, err
		}
		return Answer{Documents: []*nodestatus.Document{d}}, nil
	}
}

// Config is what is printed.
type Config struct {
	Source    Source
	Namespace string        // of the Services; empty means all
	Interval  time.Duration // between queries; at least MinInterval
	Sort      string        // one of the columns' words
	Count     int           // number of tables; zero means no limit
	Output    string        // empty for a table, or json, yaml
	Idle      bool          // whether tables have Services without connections, too
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
	before := readings{}
	wait := max(c.Interval, readInterval) // otherwise the first table might have no rates
	for n := 0; n <= c.Count || c.Count == 0; n++ {
		if n > 0 && !pause(ctx, wait) {
			return nil
		}
		start := time.Now()
		a, err := c.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the error is that of the end
		case err != nil && (n == 0 || n == c.Count):
			return err
		case err != nil:
			_, _ = fmt.Fprintln(c.Err, "error:", output.Clean(err.Error()))
		default:
			if t := newTable(a, before); n > 0 { // the first is only compared with
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

// ask asks the source. Endpoints are only counted, to keep documents small.
func (c *Config) ask(ctx context.Context) (Answer, error) {
	ctx, stop := context.WithTimeout(ctx, max(queryTimeout, c.Interval))
	defer stop()
	return c.Source(ctx, nodestatus.Query{Namespace: c.Namespace, Brief: true})
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

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
	flags.BoolVarP(&f.config.Idle, "all", "a", false, "print Services without connections, too")
	flags.IntVar(&f.config.Limit, "limit", 0, "print at most this number of `Services`; 0 for no limit")
	output.Objects.AddFlag(cmd, &f.config.Output)
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
