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
	o.print("")
	o.print("%d. %s", o.sections, title)
	o.print("")
}

// quote writes the output of a program, line by line.
func (o *output) quote(text string) {
	for line := range strings.Lines(text) {
		o.print("   | %s", strings.TrimRight(line, "\n"))
	}
}

// barWidth is the length of a bar for all requests.
const barWidth = 24

// chart writes, for one target, how many answers each client got from each pod.
func (o *output) chart(target string, by []string, clients []client, tallies []tally) {
	o.print("   %s", row(target, clients, func(i int) string { return "from " + clients[i].title }))
	for _, pod := range by {
		o.print("   %s", row("  Hi from "+pod, clients, func(i int) string {
			n := tallies[i][pod]
			return fmt.Sprintf("%3d %s", n, strings.Repeat("#", (n*barWidth+requests/2)/requests))
		}))
	}
}

// row returns a line of a table with a column for each client.
func row(head string, clients []client, cell func(i int) string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%-34s", head)
	for i := range clients {
		fmt.Fprintf(&s, "%-20s", cell(i))
	}
	return strings.TrimRight(s.String(), " ")
}
