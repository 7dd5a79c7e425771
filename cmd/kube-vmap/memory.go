package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
)

// Garbage collection during the start, which allocates much and keeps little.
const (
	// firstCollection is the size of the heap at which Go collects garbage for the first time:
	// reading a large cluster takes more in any case, and eight earlier collections, each of
	// all that was read so far, would take a tenth of the CPU of a start.
	firstCollection = 32 << 20
	// startPercent is by how much the heap then grows from one collection to the next, as
	// GOGC. It is less than the usual 100, because the peak during the start decides how much
	// memory the process needs.
	startPercent = 50
)

// limitHeap sets how the heap grows during the start. The function that it returns ends that.
// It does nothing if GOGC is not 100.
func limitHeap() (end func()) {
	const smallest = 4 << 20 // heap at which Go collects first, if GOGC is 100
	before := debug.SetGCPercent(firstCollection / smallest * 100)
	if before != 100 {
		debug.SetGCPercent(before)
		return func() {}
	}
	var once sync.Once
	collected := func() { once.Do(func() { debug.SetGCPercent(startPercent) }) }
	runtime.AddCleanup(new([16]*byte), func(f func()) { f() }, collected)
	return func() {
		once.Do(func() {})
		debug.SetGCPercent(before)
	}
}

// freeWhenReady waits until our rules are installed, calls end, and returns memory.
func freeWhenReady(ctx context.Context, ready <-chan struct{}, end func()) error {
	select {
	case <-ctx.Done():
		return nil
	case <-ready:
	}
	end()
	debug.FreeOSMemory() // a third of what reading the whole cluster took is not needed again
	return nil
}
