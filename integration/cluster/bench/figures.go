package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// sample is figures of one thing, measured several times.
type sample []float64

func (s *sample) add(x float64) { *s = append(*s, x) }

// at is the figure that the given part of them, from 0 to 1, did not exceed.
func (s sample) at(part float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

func (s sample) median() float64 { return s.at(0.5) }

// time is the figure that the given part did not exceed, of times in seconds;
// nothing if there are no figures.
func (s sample) time(part float64) string {
	if len(s) == 0 {
		return ""
	}
	return brief(seconds(s.at(part)))
}

// last is the newest figure, a time.
func (s sample) last() string { return brief(seconds(s[len(s)-1])) }

// over are the ratios of figures to those which were taken at the same time.
func (s sample) over(floor sample) sample {
	ratios := make(sample, min(len(s), len(floor)))
	for i := range ratios {
		ratios[i] = s[i] / floor[i]
	}
	return ratios
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

// brief is a duration with three digits that count.
func brief(d time.Duration) string {
	unit := time.Duration(1)
	for d.Abs()/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// factor is a ratio as text, nothing if there is none.
func factor(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return fmt.Sprintf("%.2f x", x)
}

func megabytes(n float64) string { return fmt.Sprintf("%.0f MB", n/1e6) }

// thousands writes a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
