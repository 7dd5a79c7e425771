package daemon

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	stdsync "sync"
)

// journal takes in what a program writes to stderr, and knows the messages of
// its log.
type journal struct {
	mu    stdsync.Mutex
	rest  []byte
	lines []line
}

// line is a line of stderr; one that is no log has no message.
type line struct{ level, message, text string }

// Write implements io.Writer.
func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rest = append(j.rest, b...)
	for {
		text, rest, whole := bytes.Cut(j.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		j.rest = rest
		var e struct{ Level, Msg string }
		_ = json.Unmarshal(text, &e) // what is no log has neither
		j.lines = append(j.lines, line{e.Level, e.Msg, string(text)})
	}
}

// count is the number of lines so far.
func (j *journal) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.lines)
}

// find returns the lines from the n-th on with one of the messages.
func (j *journal) find(from int, messages ...string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.lines[from:] {
		for _, m := range messages {
			if l.message == m {
				found = append(found, l.text)
			}
		}
	}
	return found
}

// bad are the lines that tell of something wrong, but for some messages.
func (j *journal) bad(fine []string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.lines {
		wrong := l.level == "WARN" || l.level == "ERROR" || l.level == ""
		if wrong && !slices.Contains(fine, l.message) {
			found = append(found, l.text)
		}
	}
	return found
}

// String is what a person wants to read of it: the last lines.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var s strings.Builder
	for _, l := range j.lines[max(0, len(j.lines)-shown):] {
		s.WriteString(l.text[:min(len(l.text), wide)] + "\n")
	}
	return s.String()
}

// What of a log is shown when a test failed: so many lines, and so much of each.
const (
	shown = 20
	wide  = 400
)
