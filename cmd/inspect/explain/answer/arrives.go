package answer

import "slices"

// Values of Arrives and Answers.
const (
	Always    = "always"
	Sometimes = "sometimes"
	Never     = "never"
	Unknown   = "unknown"
)

// arrivals are the values of Arrives, the worst last.
var arrivals = []string{Always, Sometimes, Unknown, Never}

var arrivalTexts = map[string]string{
	Always: "arrives", Never: "does not arrive", Sometimes: "does not always arrive", Unknown: "not certain",
}

// ArrivalText returns a value of Arrives in words.
func ArrivalText(arrives string) string { return arrivalTexts[arrives] }

// Badness orders values of Arrives, the worst is the greatest.
func Badness(arrives string) int { return slices.Index(arrivals, arrives) }

// InTurn returns whether a packet arrives that must pass several places one after another.
func InTurn(values ...string) string {
	return slices.MaxFunc(append(values, Always), func(a, b string) int { return Badness(a) - Badness(b) })
}

// Either returns whether a packet arrives that takes one of several paths. If it arrives on
// some and not on others, the unknown ones do not matter.
func Either(values ...string) string {
	has := func(value string) bool { return slices.Contains(values, value) }
	switch {
	case has(Sometimes), has(Always) && has(Never):
		return Sometimes
	case has(Unknown):
		return Unknown
	case has(Always):
		return Always
	}
	return Never
}
