package eventually

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

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
