package main

import (
	"fmt"
	"slices"
	"time"
)

// times are durations of one thing, measured several times.
type times []time.Duration

// at is the time that the given part of them, from 0 to 1, did not exceed.
func (t times) at(part float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

func (t times) median() time.Duration { return t.at(0.5) }

// brief is a duration with three digits that count, in us, ms or s.
func brief(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return digits(float64(d)/1e3) + " us"
	case d < time.Second:
		return digits(float64(d)/1e6) + " ms"
	}
	return digits(d.Seconds()) + " s"
}

// digits is a number with three digits that count.
func digits(x float64) string {
	switch {
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	case x < 100:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// ratio is how many times as much as b a is; zero if b is not known.
func ratio(a, b time.Duration) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// factor is a ratio as text.
func factor(x float64) string { return fmt.Sprintf("%.2f x", x) }

// percent is a part of one as text.
func percent(x float64) string { return digits(100*x) + " %" }

// bytesText is a number of bytes with three digits that count.
func bytesText(n int) string {
	switch {
	case n < 10_000:
		return thousands(n) + " B"
	case n < 1_000_000:
		return digits(float64(n)/1e3) + " kB"
	}
	return digits(float64(n)/1e6) + " MB"
}

// thousands writes a number with commas.
func thousands(n int) string {
	s := fmt.Sprintf("%d", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
