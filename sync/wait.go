package sync

import (
	"context"
	"time"
)

// Sleep waits, and reports false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Send sends a value, and reports false if ctx ended first.
func Send[T any](ctx context.Context, out chan<- T, value T) bool {
	select {
	case out <- value:
		return true
	case <-ctx.Done():
		return false
	}
}
