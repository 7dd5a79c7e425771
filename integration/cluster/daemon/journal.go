package daemon

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	stdsync "sync"
)

// Journal takes in what a program writes. It may be read meanwhile.
type Journal struct {
	mu    stdsync.Mutex
	rest  []byte
	lines []string
}

// Entry is a line of the log by field: time, level, msg, and others. A line that
// is no log is all in msg.
type Entry map[string]string

// Write implements io.Writer.
func (j *Journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rest = append(j.rest, b...)
	for {
		line, rest, whole := bytes.Cut(j.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		j.lines, j.rest = append(j.lines, string(line)), rest
	}
}

// Len is the number of lines so far.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.lines)
}

// Lines are those from the n-th on.
func (j *Journal) Lines(n int) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.lines[min(n, len(j.lines)):]...)
}

// Entries are the lines from the n-th on, by field.
func (j *Journal) Entries(n int) []Entry {
	lines := j.Lines(n)
	entries := make([]Entry, len(lines))
	for i, line := range lines {
		entries[i] = parse(line)
	}
	return entries
}

// String is all lines.
func (j *Journal) String() string { return strings.Join(j.Lines(0), "\n") }

// Tail is the last lines.
func (j *Journal) Tail() string {
	const enough = 60
	return strings.Join(j.Lines(max(0, j.Len()-enough)), "\n")
}

// parse reads a line as package slog writes it, as text or as JSON.
func parse(line string) Entry {
	if e, ok := parseJSON(line); ok {
		return e
	}
	if line == "" {
		return Entry{"msg": ""}
	}
	e, rest := Entry{}, line
	for rest != "" {
		key, after, ok := strings.Cut(rest, "=")
		if !ok || strings.Contains(key, " ") {
			return Entry{"msg": line}
		}
		var value string
		if quoted, err := strconv.QuotedPrefix(after); err == nil {
			value, rest = quoted, strings.TrimPrefix(after[len(quoted):], " ")
			value, _ = strconv.Unquote(value) // QuotedPrefix took it for one
		} else {
			value, rest, _ = strings.Cut(after, " ")
		}
		e[key] = value
	}
	return e
}

func parseJSON(line string) (Entry, bool) {
	var fields map[string]any
	if json.Unmarshal([]byte(line), &fields) != nil {
		return nil, false
	}
	e := Entry{}
	for k, v := range fields {
		text, ok := v.(string)
		if !ok {
			b, err := json.Marshal(v)
			if err != nil {
				return nil, false
			}
			text = string(b)
		}
		e[k] = text
	}
	return e, true
}
