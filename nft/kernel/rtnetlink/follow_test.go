package rtnetlink

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWaitEndsWithItsContext ends the context while nothing changes.
func TestWaitEndsWithItsContext(t *testing.T) {
	f, err := FollowInterfaces(0)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := f.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, unix.EAGAIN) {
		t.Errorf("%v, want that of the context", err)
	}
}
