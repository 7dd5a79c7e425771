package process

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	stdsync "sync"
)

// Log collects what a program writes, by lines. It may be read meanwhile.
type Log struct {
	mu    stdsync.Mutex
	rest  []byte
	lines []line
}

// line is a line and, after their first use, its level and message (head), and all of
// its fields: batches in the debug log are too long to parse each of them.
type line struct {
	text        string
	head, entry Entry
}

func (l *line) fields() Entry {
	if l.entry == nil {
		l.entry = parse(l.text)
	}
	return l.entry
}

func (l *line) headOnly() Entry {
	if l.head == nil {
		var e struct{ Level, Msg *string }
		if json.Unmarshal([]byte(l.text), &e) == nil && e.Level != nil && e.Msg != nil {
			l.head = Entry{"level": *e.Level, "msg": *e.Msg}
		} else {
			l.head = l.fields()
		}
	}
	return l.head
}

// Entry is the fields of a log line: time, level, msg, and others. A line that is
// no log has all its text in msg.
type Entry map[string]string

// Message returns the field msg.
func (e Entry) Message() string { return e["msg"] }

// Number returns a field that is an integer, or 0.
func (e Entry) Number(field string) int {
	n, _ := strconv.Atoi(e[field])
	return n
}

// IsProblem reports whether the line is a warning, an error, or no log line.
func (e Entry) IsProblem() bool { return e["level"] != "INFO" && e["level"] != "DEBUG" }

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		text, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		l.lines, l.rest = append(l.lines, line{text: string(text)}), rest
	}
}

// Len returns the number of lines so far.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

// Lines returns the lines from the n-th on.
func (l *Log) Lines(n int) (texts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines[min(n, len(l.lines)):] {
		texts = append(texts, line.text)
	}
	return texts
}

// Entries returns the fields of the lines from the n-th on.
func (l *Log) Entries(n int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines[min(n, len(l.lines)):]
	entries := make([]Entry, len(lines))
	for i := range lines {
		entries[i] = lines[i].fields()
	}
	return entries
}

// Find returns the entries from the n-th line on that have one of the messages.
func (l *Log) Find(n int, messages ...string) (entries []Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := min(n, len(l.lines)); i < len(l.lines); i++ {
		if slices.Contains(messages, l.lines[i].headOnly().Message()) {
			entries = append(entries, l.lines[i].fields())
		}
	}
	return entries
}

// Problems returns the lines that are warnings, errors or no log lines, except
// those with the given messages.
func (l *Log) Problems(except ...string) (texts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.lines {
		if e := l.lines[i].headOnly(); e.IsProblem() && !slices.Contains(except, e.Message()) {
			texts = append(texts, l.lines[i].text)
		}
	}
	return texts
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var s strings.Builder
	for _, line := range l.lines {
		s.WriteString(line.text + "\n")
	}
	return s.String() + string(l.rest)
}

// Tail returns the last lines, long ones shortened: enough to see what happened.
func (l *Log) Tail() string {
	const lines, width = 60, 400
	var s strings.Builder
	for _, text := range l.Lines(max(0, l.Len()-lines)) {
		s.WriteString(text[:min(len(text), width)] + "\n")
	}
	return s.String()
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
			value, _ = strconv.Unquote(value) // QuotedPrefix accepted it
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
