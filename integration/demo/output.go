package main

import (
	"fmt"
	"io"
	"strings"
)

// output writes plain text. It keeps the first error of its writer and then writes
// no more.
type output struct {
	w        io.Writer
	verbose  bool // whether details are written, too
	err      error
	sections int
}

// print writes a line.
func (o *output) print(format string, args ...any) {
	if o.err == nil {
		_, o.err = fmt.Fprintf(o.w, format+"\n", args...)
	}
}

// section writes a numbered headline.
func (o *output) section(title string) {
	o.sections++
	o.print("%2d. %s", o.sections, title)
}

// detail writes lines if details are wanted.
func (o *output) detail(text string) {
	if !o.verbose {
		return
	}
	for line := range strings.Lines(text) {
		o.print("      | %s", strings.TrimRight(line, "\n"))
	}
}
