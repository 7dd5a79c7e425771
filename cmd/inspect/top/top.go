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

// MinInterval is how often a source may be asked at most.
const MinInterval = 200 * time.Millisecond

// Config says what is shown, and how.
type Config struct {
	Source Source
	// Namespace is whose Services are shown; all if empty.
	Namespace string
	Interval  time.Duration // from one question to the next; at least MinInterval
	Sort      string        // one of Sorts
	Out       io.Writer
	// Screen tells that Out is a terminal that a person looks at; else it gets lines.
	Screen bool
	// Count is after how many blocks of lines it is enough; zero for never.
	Count int
}

// Validate says what is wrong with a configuration, by the names of flags.
func (c *Config) Validate() error {
	switch {
	case c.Interval < MinInterval:
		return fmt.Errorf("--interval: %s is less than %s", c.Interval, MinInterval)
	case c.Count < 0:
		return fmt.Errorf("--count: %d is less than 0", c.Count)
	case !slices.Contains(sorts(), c.Sort):
		return fmt.Errorf("--sort: %q is none of %s", c.Sort, strings.Join(sorts(), ", "))
	}
	return nil
}

// Run shows what there is until somebody ends it, or the context does, which is no
// error. It is one that the first question is not answered; later ones are shown.
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
	if ctx.Err() == nil && !errors.Is(err, errOver) {
		return err
	}
	return nil
}

// screen shows a table that a person can move in.
func screen(ctx context.Context, c Config, ask poll, first *sheet) error {
	// Signals end the context.
	program := tea.NewProgram(newModel(c, ask, first), tea.WithContext(ctx),
		tea.WithOutput(c.Out), tea.WithoutSignalHandler())
	if _, err := program.Run(); err != nil {
		return fmt.Errorf("show on the terminal: %w", err)
	}
	return nil
}
