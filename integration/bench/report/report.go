// Package report prints the figures of benchmarks as package testing does, each group of them
// as a line of its own, and fails a benchmark that misses a mark. Both benches use it, that of
// the rule set (integration/bench) and that of a node in a cluster (integration/cluster/bench).
//
//	report.Line(b, "10000x10",
//		report.Time("ms-total", times.Median(), time.Second), // a mark
//		report.Ratio("x-floor", times.Median(), floor.Median(), 0))
package report

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// A Figure is a measured value.
type Figure struct {
	Unit  string // and what was measured, as in "ms-total"
	Value float64
	Most  float64 // the mark: a greater value fails the benchmark. Zero is none.
}

// Line prints figures as a line of the benchmark.
func Line(b *testing.B, name string, figures ...Figure) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		b.ReportMetric(0, "ns/op") // of this function, which measures nothing
		for _, f := range figures {
			b.ReportMetric(f.Value, f.Unit)
		}
	})
	for _, f := range figures {
		if f.Most > 0 && !(f.Value <= f.Most) { // also if it is not a number
			b.Errorf("%s: %.3g %s, the mark is %.3g", name, f.Value, f.Unit, f.Most)
		}
	}
}

// Time returns a figure of milliseconds.
func Time(unit string, took, most time.Duration) Figure {
	return Figure{unit, took.Seconds() * 1000, most.Seconds() * 1000}
}

// Ratio returns how many times another time one is.
func Ratio(unit string, took, other time.Duration, most float64) Figure {
	return Figure{unit, float64(took) / float64(other), most}
}

// Ratios returns the median of the ratios of measurements that were taken in the same round.
func Ratios[T ~int64 | ~uint64](unit string, of, to Sample[T], most float64) Figure {
	var ratios Sample[float64]
	for i := range of {
		ratios.Add(float64(of[i]) / float64(to[i]))
	}
	return Number(unit, ratios.Median(), most)
}

// Number returns a figure of anything else.
func Number[T int | float64](unit string, value T, most float64) Figure {
	return Figure{unit, float64(value), most}
}

// A Sample is one quantity that was measured several times.
type Sample[T cmp.Ordered] []T

// Times is a sample of durations.
type Times = Sample[time.Duration]

// Add appends a measurement.
func (s *Sample[T]) Add(x T) { *s = append(*s, x) }

// At returns the value that the given part of the measurements, from 0 to 1, does not exceed.
func (s Sample[T]) At(part float64) T {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// Median returns the middle measurement.
func (s Sample[T]) Median() T { return s.At(0.5) }
