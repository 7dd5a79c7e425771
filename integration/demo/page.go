package main

import (
	"fmt"
	"io"
	"strings"
)

// page is where the story is written, in plain text. It keeps the first error of
// its writer and then writes no more.
type page struct {
	w        io.Writer
	err      error
	chapters int
}

// say writes a line.
func (p *page) say(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// chapter begins a new one.
func (p *page) chapter(title string) {
	p.chapters++
	p.say("")
	p.say("%d. %s", p.chapters, title)
	p.say("")
}

// quote writes what a program printed, line by line.
func (p *page) quote(text string) {
	for line := range strings.Lines(text) {
		p.say("   | %s", strings.TrimRight(line, "\n"))
	}
}

// barWidth is how long a bar for all questions is.
const barWidth = 24

// chart writes for one target how many answers each client got from each pod.
func (p *page) chart(target string, by []string, clients []client, tallies []tally) {
	p.say("   %s", row(target, clients, func(i int) string { return "from " + clients[i].title }))
	for _, pod := range by {
		p.say("   %s", row("  Hi from "+pod, clients, func(i int) string {
			n := tallies[i][pod]
			return fmt.Sprintf("%3d %s", n, strings.Repeat("#", (n*barWidth+questions/2)/questions))
		}))
	}
}

// row is a line of a table with a column for each client.
func row(head string, clients []client, cell func(i int) string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%-34s", head)
	for i := range clients {
		fmt.Fprintf(&s, "%-20s", cell(i))
	}
	return strings.TrimRight(s.String(), " ")
}
