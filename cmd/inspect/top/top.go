package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// MinInterval is the minimum interval between queries.
const MinInterval = 200 * time.Millisecond

// Config is what is shown.
type Config struct {
	Source    Source
	Namespace string        // of the Services; empty means all
	Interval  time.Duration // between queries; at least MinInterval
	Sort      string        // one of the columns' words
	Out       io.Writer
	Count     int // number of blocks of lines; zero means no limit
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
	return nil
}

// Run prints connections as lines until there are enough or the context ends, which is no
// error. An error of the first query is returned; later ones are shown.
func Run(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	ask := NewPoll(ctx, c.Source, c.Interval)
	t := NewOverview(c)
	a, err := ask(t.Query())
	if err == nil {
		t.Show(t.SheetOf(a, nil))
		err = lines(ctx, c, ask, t)
	}
	if ctx.Err() == nil && !errors.Is(err, errStopped) {
		return err
	}
	return nil
}
