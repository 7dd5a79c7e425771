package eventually

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTryReturnsOnSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		err := Try(t.Context(), func() error {
			if calls++; calls < 5 {
				return errors.New("too early")
			}
			return nil
		})
		if err != nil || calls != 5 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}

func TestTryReturnsCauseAndLastErrorAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		missing := errors.New("missing")
		err := Try(ctx, func() error { return missing })
		if !errors.Is(err, missing) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
