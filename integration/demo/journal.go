package main

import (
	"bytes"
	"strconv"
	"strings"
)

// journal takes in the log that kube-vmap writes to stderr and passes it on line
// by line.
type journal struct {
	rest  []byte
	lines chan entry
}

// backlog is how many lines may wait to be read; there are never as many.
const backlog = 1000

func newJournal() *journal { return &journal{lines: make(chan entry, backlog)} }

// Write implements io.Writer.
func (j *journal) Write(b []byte) (int, error) {
	j.rest = append(j.rest, b...)
	for {
		line, rest, whole := bytes.Cut(j.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		j.lines <- parseEntry(string(line))
		j.rest = rest
	}
}

// entry is a line of the log: time=... level=INFO msg=applied services=2 ...
// What is no log, as the last words of a program that cannot go on, has no
// fields.
type entry struct {
	line   string
	fields map[string]string
}

func parseEntry(line string) entry {
	e := entry{line, map[string]string{}}
	for rest := line; rest != ""; {
		key, after, ok := strings.Cut(rest, "=")
		if !ok {
			break
		}
		value, more, _ := strings.Cut(after, " ")
		if quoted, err := strconv.QuotedPrefix(after); err == nil {
			value, _ = strconv.Unquote(quoted)
			more = strings.TrimPrefix(after[len(quoted):], " ")
		}
		e.fields[key], rest = value, more
	}
	return e
}

func (e entry) message() string { return e.fields["msg"] }

// trouble reports whether the line is a warning, an error, or no log at all.
func (e entry) trouble() bool {
	level := e.fields["level"]
	return level != "INFO" && level != "DEBUG"
}

// plain is the line without time and level, as the story shows it.
func (e entry) plain() string {
	_, line, _ := strings.Cut(e.line, "msg=")
	if quoted, err := strconv.QuotedPrefix(line); err == nil {
		return e.message() + line[len(quoted):]
	}
	return line
}
