package model

import (
	"maps"
	"runtime"
	"testing"
)

func TestShrinkFreesMemory(t *testing.T) {
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
		t.Errorf("got %v", m)
	}
	if left := live(); full < left+1<<20 {
		t.Errorf("%d bytes before, %d after", full, left)
	}
	runtime.KeepAlive(m)
}

// live returns how much memory is in use.
func live() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func TestShrinkCopiesBelowAnEighthOfALargePeak(t *testing.T) {
	for _, test := range []struct{ size, peak, want int }{
		{0, 4095, 4095},
		{0, 4096, 0},
		{512, 4096, 512},
		{513, 4096, 4096},
		{9, 3, 9},
	} {
		m := make(map[int]int)
		for i := range test.size {
			m[i] = i
		}
		peak := test.peak
		if got := Shrink(m, &peak); len(got) != test.size || peak != test.want {
			t.Errorf("%+v: got %d elements, peak %d", test, len(got), peak)
		}
	}
}
