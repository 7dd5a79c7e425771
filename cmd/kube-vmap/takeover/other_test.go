package takeover

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestOtherProxyMustBeGoneTwiceInARow has the results of each poll.
func TestOtherProxyMustBeGoneTwiceInARow(t *testing.T) {
	const yes, no = true, false
	for _, polls := range [][]bool{{no}, {yes, no, no}, {yes, yes, no, yes, no, no}} {
		synctest.Test(t, func(t *testing.T) {
			start, n := time.Now(), 0
			alone := waitUntilAlone(t.Context(), func() bool { n++; return polls[n-1] })
			if took := time.Since(start); !alone || n != len(polls) || took != time.Duration(n-1)*pollPeriod {
				t.Errorf("of %v, alone is %t after %d polls and %v", polls, alone, n, took)
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if waitUntilAlone(ctx, func() bool { cancel(); return true }) {
		t.Error("the other proxy counts as gone")
	}
}
