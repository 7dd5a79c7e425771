package main

import (
	"bufio"
	"time"
)

// mark is a figure that the project has set itself, what was measured, and what
// that is to be seen beside: a floor of the same run, or the same thing without what
// is looked at.
type mark struct {
	what, measured, beside, bound string
	kept                          bool
}

// mark notes a figure against its bound.
func (r *report) mark(m mark) { r.marks = append(r.marks, m) }

// markTime notes a time that must be below a bound.
func (r *report) markTime(what string, took time.Duration, beside string, below time.Duration) {
	r.mark(mark{what, brief(took), beside, "below " + brief(below), took < below})
}

// markRatio notes how many times as long as something else a thing may take at
// most.
func (r *report) markRatio(what string, took time.Duration, beside string, other time.Duration, most float64) {
	x := ratio(took, other)
	r.mark(mark{what, brief(took), beside + " " + brief(other) + ": " + factor(x), "at most " + factor(most), other > 0 && x <= most})
}

// hint is what to do about a mark that is missed because of time that is ours.
const hint = "where time goes: go run ./integration/bench -run '^NAME$' -cpuprofile FILE; go tool pprof -top FILE"

// printMarks writes all marks as one table.
func (r *report) printMarks(out *bufio.Writer) {
	if len(r.marks) == 0 {
		return
	}
	s := &section{title: "Marks"}
	s.note("each beside its floor, or beside the same thing without what is looked at")
	s.add("", "measured", "beside", "bound", "")
	missed := false
	for _, m := range r.marks {
		verdict := "kept"
		if !m.kept {
			verdict, missed = "MISSED", true
		}
		s.add(m.what, m.measured, m.beside, m.bound, verdict)
	}
	if missed {
		s.note(hint)
	}
	s.print(out)
}
