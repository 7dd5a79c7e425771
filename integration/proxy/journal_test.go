package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	stdsync "sync"
)

// journal takes in what a program writes to stderr, and knows the lines that are
// its log.
type journal struct {
	mu      stdsync.Mutex
	rest    []byte
	entries []entry
	plain   []string // lines that are no log
}

// entry is one line of the log, by field.
type entry map[string]any

// Write implements io.Writer.
func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rest = append(j.rest, b...)
	for {
		line, rest, whole := bytes.Cut(j.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		j.rest = rest
		var e entry
		if json.Unmarshal(line, &e) == nil {
			j.entries = append(j.entries, e)
		} else {
			j.plain = append(j.plain, string(line))
		}
	}
}

// find returns the entries from the n-th on that have the message, and how many
// entries there are of any kind.
func (j *journal) find(from int, message string) (found []entry, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.entries[from:] {
		if e["msg"] == message {
			found = append(found, e)
		}
	}
	return found, len(j.entries)
}

// String is what a person wants to read of it: all but debugging.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var s strings.Builder
	for _, e := range j.entries {
		if e["level"] == "DEBUG" {
			continue
		}
		line, err := json.Marshal(e)
		if err != nil {
			line = fmt.Append(nil, e)
		}
		s.Write(append(line, '\n'))
	}
	for _, line := range j.plain {
		s.WriteString(line + "\n")
	}
	return s.String()
}

// number is a field that is a number; zero if there is none.
func (e entry) number(field string) int {
	n, _ := e[field].(float64)
	return int(n)
}

// text is a field as it was written.
func (e entry) text(field string) string { return fmt.Sprint(e[field]) }
