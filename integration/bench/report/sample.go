package report

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A Sample is one quantity that was measured several times.
type Sample[T cmp.Ordered] []T

// Times is a sample of durations.
type Times = Sample[time.Duration]

// Add appends a measurement.
func (s *Sample[T]) Add(x T) { *s = append(*s, x) }

// At returns the value that the given part of the measurements, from 0 to 1, does not
// exceed; the zero value if there are none.
func (s Sample[T]) At(part float64) (value T) {
	if len(s) == 0 {
		return value
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// Median returns the middle measurement.
func (s Sample[T]) Median() T { return s.At(0.5) }

// Ratio returns a divided by b, not a number if b is zero.
func Ratio[T ~int | ~int64](a, b T) Factor {
	if b == 0 {
		return Factor(math.NaN())
	}
	return Factor(float64(a) / float64(b))
}

// Ratios returns the ratios of measurements that were taken at the same time.
func Ratios[T ~int | ~int64](of, to Sample[T]) Sample[Factor] {
	out := make(Sample[Factor], min(len(of), len(to)))
	for i := range out {
		out[i] = Ratio(of[i], to[i])
	}
	return out
}
