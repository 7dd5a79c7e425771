package report

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A Report collects what is printed at the end. Where a method takes cells, each may be
// of any type that [Text] knows.
type Report struct {
	// Hint is printed if a mark is missed: how to find out why.
	Hint string

	sections []*Section
	promises []string // with their verdicts
	marks    [][]any
	missed   bool // a mark
	broken   []string
}

// A Section is a table of the report.
type Section struct {
	title string
	notes []string // what the columns mean
	rows  [][]string
}

// Section begins a table. Columns are the first row.
func (r *Report) Section(title string, columns ...any) *Section {
	s := &Section{title: title}
	s.Add(columns...)
	r.sections = append(r.sections, s)
	return s
}

// Add adds a row of at most as many cells as there are columns.
func (s *Section) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Text(c)
	}
	s.rows = append(s.rows, row)
}

// Note adds a line below the title. All arguments are cells, for %s.
func (s *Section) Note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, Texts(args)...))
}

// Promise records whether a sentence holds. All arguments are cells, for %s.
func (r *Report) Promise(kept bool, format string, args ...any) {
	text, verdict := fmt.Sprintf(format, Texts(args)...), "kept"
	if !kept {
		verdict, r.broken = "BROKEN", append(r.broken, text)
	}
	r.promises = append(r.promises, fmt.Sprintf("  %-6s  %s", verdict, text))
}

// Mark records a figure that the project has set itself: whether it is within its bound,
// the quantity, what was measured, and what to compare that with, which is a floor of
// the same run or the same thing without what is looked at.
func (r *Report) Mark(kept bool, what string, measured, beside, bound any) {
	verdict := "kept"
	if !kept {
		verdict, r.missed = "MISSED", true
		r.broken = append(r.broken, what+": "+Text(measured)+", bound "+Text(bound))
	}
	r.marks = append(r.marks, []any{what, measured, beside, bound, verdict})
}

// MarkTime records a time that must be below a bound.
func (r *Report) MarkTime(what string, took time.Duration, beside any, below time.Duration) {
	r.Mark(took < below, what, took, beside, "below "+Text(below))
}

// MarkRatio records a time that may be at most so many times another one.
func (r *Report) MarkRatio(what string, took time.Duration, beside string, other time.Duration, most Factor) {
	x := Ratio(took, other)
	r.Mark(x <= most, what, took, beside+" "+Text(other)+": "+Text(x), "at most "+Text(most))
}

// Print prints all to standard output. It returns the given error and which promises
// and marks do not hold.
func (r *Report) Print(err error) error {
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintf(out, "Linux %s, %s, %d processors, load %s\n", release(), runtime.Version(), runtime.NumCPU(), load())
	for _, s := range r.sections {
		s.print(out)
	}
	if len(r.promises) > 0 {
		fmt.Fprintf(out, "\nWhat is promised\n\n%s\n", strings.Join(r.promises, "\n"))
	}
	r.printMarks(out)
	if len(r.broken) > 0 {
		err = errors.Join(err, errors.New("not as promised: "+strings.Join(r.broken, "; ")))
	}
	return errors.Join(err, out.Flush())
}

func (r *Report) printMarks(out *bufio.Writer) {
	if len(r.marks) == 0 {
		return
	}
	s := &Section{title: "Marks"}
	s.Note("each beside its floor, or beside the same thing without what is looked at")
	s.Add(nil, "measured", "beside", "bound", nil)
	for _, m := range r.marks {
		s.Add(m...)
	}
	if r.missed && r.Hint != "" {
		s.Note("%s", r.Hint)
	}
	s.print(out)
}

// print writes title, notes and the rows in columns, numbers to the right. Errors are
// left to the flush.
func (s *Section) print(out *bufio.Writer) {
	fmt.Fprintf(out, "\n%s\n", s.title)
	for _, note := range s.notes {
		fmt.Fprintf(out, "  %s\n", note)
	}
	var width []int
	for _, row := range s.rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range s.rows {
		for i, cell := range row {
			if i == 0 {
				fmt.Fprintf(out, "\n  %-*s", width[0], cell)
			} else {
				fmt.Fprintf(out, "  %*s", width[i], cell)
			}
		}
	}
	out.WriteByte('\n')
}

// release returns the kernel's version.
func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "of unknown version"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// load returns how many threads wanted to run in the last 1, 5 and 15 minutes. If that
// is more than there are processors, other programs share them.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 2 {
		return strings.Join(fields[:3], " ")
	}
	return "unknown"
}
