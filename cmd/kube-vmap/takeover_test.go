package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnotherProxyMustBeGoneTwiceInARow has a proxy seen, or not, at each look.
func TestAnotherProxyMustBeGoneTwiceInARow(t *testing.T) {
	const yes, no = true, false
	for _, looks := range [][]bool{{no}, {yes, no, no}, {yes, yes, no, yes, no, no}} {
		synctest.Test(t, func(t *testing.T) {
			start, n := time.Now(), 0
			alone := untilAlone(t.Context(), func() bool { n++; return looks[n-1] })
			if took := time.Since(start); !alone || n != len(looks) || took != time.Duration(n-1)*otherProxyPeriod {
				t.Errorf("of %v, alone is %t after %d looks and %v", looks, alone, n, took)
			}
		})
	}
}

func TestTheEndDoesNotWaitForAnotherProxy(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if untilAlone(ctx, func() bool { cancel(); return true }) {
		t.Error("it counts as gone")
	}
}
