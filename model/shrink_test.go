package model

import (
	"maps"
	"runtime"
	"testing"
)

func TestAMapIsCopiedWhenLittleOfItIsLeft(t *testing.T) {
	m, peak := map[int]int{}, 0
	for i := range 100_000 {
		m[i] = i
		m = Shrink(m, &peak)
	}
	full := live()
	for i := range 99_990 {
		delete(m, i)
		m = Shrink(m, &peak)
	}
	want := map[int]int{}
	for i := 99_990; i < 100_000; i++ {
		want[i] = i
	}
	if !maps.Equal(m, want) {
		t.Errorf("left are %v", m)
	}
	if left := live(); full < left+1<<20 {
		t.Errorf("%d bytes were live, and are %d", full, left)
	}
	runtime.KeepAlive(m)
}

// live is how much memory is in use.
func live() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
