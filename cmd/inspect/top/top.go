package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

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
	Output    string        // empty for a table, or json
	Out, Err  io.Writer
}

// Validate checks a configuration. Errors name the flags.
func (c *Config) Validate() error {
	switch {
	case c.Interval < MinInterval:
		return fmt.Errorf("--interval: %s is less than %s", c.Interval, MinInterval)
	case c.Count < 0:
		return fmt.Errorf("--count: %d is less than 0", c.Count)
	case !slices.Contains(sorts(), c.Sort):
		return fmt.Errorf("--sort: %q is not one of %s", c.Sort, strings.Join(sorts(), ", "))
	}
	return output.JSON.Check(c.Output)
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

// pause waits, and reports false if the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
