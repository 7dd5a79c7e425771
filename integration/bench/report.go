package main

import (
	"bufio"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// report collects what is printed at the end.
type report struct {
	sections []*section
	promises []promise
	marks    []mark
}

// section is one table of the report.
type section struct {
	title string
	notes []string // what the columns mean
	rows  [][]string
}

// promise is something the project says of itself, and whether it held.
type promise struct {
	text string
	kept bool
}

// section begins a table. Columns are the first row.
func (r *report) section(title string, columns ...string) *section {
	s := &section{title: title}
	s.add(columns...)
	r.sections = append(r.sections, s)
	return s
}

// add adds a row, of as many cells as there are columns.
func (s *section) add(cells ...string) { s.rows = append(s.rows, cells) }

// note adds a line below the title.
func (s *section) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// promise notes whether something held.
func (r *report) promise(kept bool, format string, args ...any) {
	r.promises = append(r.promises, promise{fmt.Sprintf(format, args...), kept})
}

// broken names the promises that did not hold.
func (r *report) broken() error {
	var texts []string
	for _, p := range r.promises {
		if !p.kept {
			texts = append(texts, p.text)
		}
	}
	for _, m := range r.marks {
		if !m.kept {
			texts = append(texts, m.what+": "+m.measured+", bound "+m.bound)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("not as promised: %s", strings.Join(texts, "; "))
}

// print writes the tables, then the promises. Errors are left to the flush.
func (r *report) print(out *bufio.Writer) {
	fmt.Fprintf(out, "Linux %s, %s, %d processors\n", release(), runtime.Version(), runtime.NumCPU())
	for _, s := range r.sections {
		s.print(out)
	}
	out.WriteString("\nWhat is promised\n\n")
	for _, p := range r.promises {
		verdict := "kept  "
		if !p.kept {
			verdict = "BROKEN"
		}
		fmt.Fprintf(out, "  %s  %s\n", verdict, p.text)
	}
	r.printMarks(out)
}

// release is the kernel's version.
func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "of unknown version"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// print writes title, notes and table.
func (s *section) print(out *bufio.Writer) {
	fmt.Fprintf(out, "\n%s\n", s.title)
	for _, note := range s.notes {
		fmt.Fprintf(out, "  %s\n", note)
	}
	out.WriteByte('\n')
	s.table(out)
}

// table writes the rows in columns, numbers to the right.
func (s *section) table(out *bufio.Writer) {
	width := make([]int, len(s.rows[0]))
	for _, row := range s.rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	for _, row := range s.rows {
		fmt.Fprintf(out, "  %-*s", width[0], row[0])
		for i, cell := range row[1:] {
			fmt.Fprintf(out, "  %*s", width[i+1], cell)
		}
		out.WriteByte('\n')
	}
}
