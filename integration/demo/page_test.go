package main

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestALogLineIsReadByField(t *testing.T) {
	e := parseEntry(`time=2026-11-20T13:40:40.849Z level=DEBUG msg="nothing to change" commands="add \"a\"\nb=c\n" n=3 empty=""`)
	want := map[string]string{
		"time": "2026-11-20T13:40:40.849Z", "level": "DEBUG", "msg": "nothing to change",
		"commands": "add \"a\"\nb=c\n", "n": "3", "empty": "",
	}
	if !maps.Equal(e.fields, want) {
		t.Errorf("got %q, want %q", e.fields, want)
	}
	if got := parseEntry("level=INFO msg=applied services=2").plain(); got != "applied services=2" {
		t.Errorf("plain is %q", got)
	}
}

func TestWarningsErrorsAndLastWordsAreTrouble(t *testing.T) {
	for line, want := range map[string]bool{
		"level=INFO msg=applied":                false,
		"level=DEBUG msg=batch":                 false,
		"level=WARN msg=doubt":                  true,
		"level=ERROR msg=wrong":                 true,
		"kube-vmap: read the kernel: no access": true,
	} {
		if got := parseEntry(line).trouble(); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func TestTheLogArrivesLineByLine(t *testing.T) {
	j := newJournal()
	for _, piece := range []string{"msg=a\nms", "g=b", "\nmsg=c"} {
		if n, err := j.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	for _, want := range []string{"a", "b"} {
		if got := (<-j.lines).message(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if len(j.lines) != 0 {
		t.Error("half a line came")
	}
}

func TestGrosslyUnevenAnswersAreNoticed(t *testing.T) {
	pods := []string{"pod-1", "pod-2", "pod-3"}
	for _, c := range []struct {
		counts tally
		ok     bool
	}{
		{tally{"pod-1": 80, "pod-2": 80, "pod-3": 80}, true},
		{tally{"pod-1": 60, "pod-2": 80, "pod-3": 100}, true},
		{tally{"pod-1": 120, "pod-2": 120}, false},
		{tally{"pod-1": 110, "pod-2": 110, "pod-3": 20}, false},
		{tally{"pod-1": 79, "pod-2": 80, "pod-3": 80, "pod-4": 1}, false},
	} {
		if err := c.counts.check(pods); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.counts, err)
		}
	}
}

// full is a writer that takes so many bytes and no more.
type full int

var errFull = errors.New("no space left")

func (f *full) Write(b []byte) (int, error) {
	if *f < full(len(b)) {
		return 0, errFull
	}
	*f -= full(len(b))
	return len(b), nil
}

func TestThePageRemembersThatItCouldNotBeWritten(t *testing.T) {
	space := full(10)
	p := &page{w: &space}
	for range 3 {
		p.say("%s", strings.Repeat("x", 6))
	}
	if !errors.Is(p.err, errFull) {
		t.Errorf("got %v", p.err)
	}
}
