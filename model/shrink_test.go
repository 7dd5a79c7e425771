package model

import (
	"maps"
	"testing"
)

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
		if got := Shrink(m, &peak); !maps.Equal(got, m) || peak != test.want {
			t.Errorf("%+v: got %d elements, peak %d", test, len(got), peak)
		}
	}
}
