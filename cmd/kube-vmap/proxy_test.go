package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestOnlyTheFirstCollectionIsDelayed(t *testing.T) {
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	delayCollection()
	if percent() <= 100 {
		t.Error("the first collection is not delayed")
	}
	runtime.GC()
	for deadline := time.Now().Add(10 * time.Second); percent() != 100; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("GOGC is %d after the first collection", percent())
		}
	}
	debug.SetGCPercent(50)
	delayCollection()
	if percent() != 50 {
		t.Errorf("GOGC was set to 50 and is %d", percent())
	}
}
