package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestHeapGrowsLessDuringTheStart(t *testing.T) {
	percent := func() int {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return int(s[0].Value.Uint64())
	}
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	end := limitHeap()
	if percent() <= 100 {
		t.Error("the first collection is not delayed")
	}
	runtime.GC()
	for deadline := time.Now().Add(10 * time.Second); percent() != startPercent; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("GOGC is %d after the first collection", percent())
		}
	}
	end()
	if percent() != 100 {
		t.Errorf("GOGC is %d after the start", percent())
	}
	limitHeap()() // as if it took no collection
	runtime.GC()
	runtime.GC() // cleanups of the first one can run
	if percent() != 100 {
		t.Errorf("GOGC is %d after a start without collections", percent())
	}
	debug.SetGCPercent(70)
	limitHeap()
	if percent() != 70 {
		t.Errorf("GOGC was set to 70 and is %d", percent())
	}
}
