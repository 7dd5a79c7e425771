// Package costtest measures for tests how the cost of a change grows with its size and with the
// size of the cluster: memory exactly, and processor time, which other programs disturb, as the
// minimum of several runs.
package costtest

import (
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// ProcessorTime returns the time that the thread used, without other programs.
func ProcessorTime() time.Duration {
	const ofThread = 3 // CLOCK_THREAD_CPUTIME_ID
	var used syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, ofThread, uintptr(unsafe.Pointer(&used)), 0); errno != 0 {
		panic(errno)
	}
	return time.Duration(used.Nano())
}

// costOf returns the minimum cost of a change over several runs.
func costOf(change func()) (bytes uint64, took time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	change() // allocates what stays
	change()
	for range 7 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := ProcessorTime()
		change()
		elapsed := ProcessorTime() - start
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; bytes == 0 || n < bytes {
			bytes = n
		}
		if took == 0 || elapsed < took {
			took = elapsed
		}
	}
	return bytes, took
}

// Check compares the cost of a change among n with its cost among four times as many. build returns
// a function that makes the change, and can be called repeatedly. own means that the change is
// about all n: its cost may be proportional to n, and else may not depend on n. The bound of the
// time is well below quadratic growth: a hash table larger than the processor's cache is slower,
// too.
func Check(t *testing.T, build func(n int) (change func()), own bool) {
	t.Helper()
	const n, times = 1000, 4
	bytes, took := costOf(build(n))
	moreBytes, longer := costOf(build(times * n))
	most := bytes + bytes/4 + 4096
	if own { // appended lists have up to twice the capacity
		most = 2 * times * bytes
	}
	if moreBytes > most {
		t.Errorf("with %d, a change takes %d bytes, with %d times as many %d", n, bytes, times, moreBytes)
	}
	if bound := 3*times*took + 2*time.Millisecond; longer > bound {
		t.Errorf("with %d, a change takes %s, with %d times as many %s", n, took, times, longer)
	}
}
