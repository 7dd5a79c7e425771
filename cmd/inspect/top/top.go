package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
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
	Screen    bool // Out is an interactive terminal; otherwise print lines
	Count     int  // number of blocks of lines; zero means no limit
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

// Run shows connections until the user or the context ends it, which is no error. An error
// of the first query is returned; later ones are shown.
func Run(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	ask := newPoll(ctx, c.Source, c.Interval)
	d, err := ask(overviewQuery(c.Namespace, nil))
	if err == nil {
		first := newSheet(d, serviceRows, nil)
		if c.Screen {
			err = screen(ctx, c, ask, first)
		} else {
			err = lines(ctx, c, ask, first)
		}
	}
	if ctx.Err() == nil && !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// screen shows the interactive table.
func screen(ctx context.Context, c Config, ask poll, first *sheet) error {
	// Signals end the context.
	program := tea.NewProgram(newModel(c, ask, first), tea.WithContext(ctx),
		tea.WithOutput(c.Out), tea.WithoutSignalHandler())
	if _, err := program.Run(); err != nil {
		return fmt.Errorf("show on the terminal: %w", err)
	}
	return nil
}
