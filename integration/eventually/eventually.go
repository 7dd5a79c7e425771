// Package eventually waits in tests for what must come, by polling with a
// deadline.
package eventually

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

const (
	// Timeout is for hangs: at least ten times what anything that tests wait for takes on a quiet
	// machine with two processors.
	Timeout = 5 * time.Minute
	// first is the pause after the first attempt; each is longer by a quarter, up to the longest.
	// Attempts cost the processor time that those need who are waited for.
	first, longest = 3 * time.Millisecond, 50 * time.Millisecond
)

// Succeeds calls try until it returns nil. After [Timeout] it ends the test with
// the last error; what is the condition, for that message.
func Succeeds(t testing.TB, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Timeout) // also valid in cleanups
	defer cancel()
	if err := Try(ctx, try); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Holds is [Succeeds] with a condition that does not say why it does not hold.
func Holds(t testing.TB, what string, condition func() bool) {
	t.Helper()
	Succeeds(t, what, func() error {
		if condition() {
			return nil
		}
		return errors.New("does not hold")
	})
}

// Try calls try until it returns nil or ctx ends. The error then holds both the
// cause and the last error.
func Try(ctx context.Context, try func() error) error {
	for pause := first; ; pause = min(pause*5/4, longest) {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}
