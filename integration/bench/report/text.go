package report

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Units of numbers, which decide how they are printed.
type (
	// Bytes is an amount of memory.
	Bytes int
	// Factor says how many times as much one thing is as another.
	Factor float64
	// Percent is a part of one.
	Percent float64
)

// Text returns a cell as it is printed, numbers with three significant digits. A cell
// is nil, a string, an int, a float64, a duration, or one of this package's units. No
// time and no factor is exactly zero: those were not measured, and their cells empty.
func Text(cell any) string {
	switch x := cell.(type) {
	case nil:
		return ""
	case string:
		return x
	case int:
		return thousands(x)
	case float64:
		return digits(x)
	case time.Duration:
		if x == 0 {
			return ""
		}
		return scaled(float64(x)/1e3, "us", "ms", "s")
	case Bytes:
		if x < 10_000 {
			return thousands(int(x)) + " B"
		}
		return scaled(float64(x)/1e3, "kB", "MB")
	case Percent:
		return digits(100*float64(x)) + " %"
	case Factor:
		if x == 0 || math.IsNaN(float64(x)) {
			return ""
		}
		return fmt.Sprintf("%.2f x", float64(x))
	}
	return fmt.Sprint(cell)
}

// Texts formats each cell.
func Texts(cells []any) []any {
	out := make([]any, len(cells))
	for i, c := range cells {
		out[i] = Text(c)
	}
	return out
}

// scaled returns a number in the largest of the units, each 1,000 times the one before,
// in which it is not below one.
func scaled(x float64, units ...string) string {
	for len(units) > 1 && math.Abs(x) >= 1000 {
		x, units = x/1000, units[1:]
	}
	return digits(x) + " " + units[0]
}

// digits returns a number with three significant digits.
func digits(x float64) string {
	switch a := math.Abs(x); {
	case a < 10:
		return fmt.Sprintf("%.2f", x)
	case a < 100:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// thousands returns a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
