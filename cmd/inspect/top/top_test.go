package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/top/toptest"
)

// result is what a run prints, and how long it took.
type result struct {
	out, errs string
	took      time.Duration
	err       error
}

// run runs with a script of answers, in a bubble.
func run(ctx context.Context, c Config, answers ...any) result {
	var out, errs bytes.Buffer
	if c.Out == nil {
		c.Out = &out
	}
	s := toptest.Script{Answers: answers}
	c.Source, c.Interval, c.Sort, c.Err = OneNode(s.Get), time.Second, "rate", &errs
	start := time.Now()
	err := Run(ctx, c)
	return result{out.String(), errs.String(), time.Since(start), err}
}

func TestOneTableOfOneInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t.Context(), Config{Count: 1}, toptest.Three(0), toptest.Three(1))
		const want = `NAMESPACE   SERVICE   CONN/S   ACTIVE   CONNECTIONS   ENDPOINTS   STATUS
b           quick     54.0     6        54            2/4         OK
c           middle    30.0     12       30            2/4         OK
a           slow      6.0      18       6             2/4         OK
12:00:01  1 node, 3 Services: 90.0 connections/s, 36 active, 90 so far; 0 with problems, 0 with notices, 0 problems of other objects
`
		if r.err != nil || r.errs != "" || r.took != time.Second || r.out != want {
			t.Errorf("%v after %s: %s\n%s, want\n%s", r.err, r.took, r.errs, r.out, want)
		}
	})
}

func TestTablesAreRepeatedUntilTheCountOrTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t.Context(), Config{Count: 3}, toptest.Three(0), toptest.Three(1), toptest.Three(2), toptest.Three(3))
		if r.err != nil || r.took != 3*time.Second || strings.Count(r.out, "\n\n") != 2 || strings.Count(r.out, "54.0") != 3 {
			t.Errorf("after %s: %v\n%s", r.took, r.err, r.out)
		}
		ctx, stop := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer stop()
		if r := run(ctx, Config{}, toptest.Three(0)); r.err != nil || strings.Count(r.out, "NAMESPACE") != 3 {
			t.Errorf("%v\n%s", r.err, r.out)
		}
	})
}

func TestSourcePausesAsLongAsItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context, nodestatus.Query) (Answer, error) {
			<-time.After(3 * time.Second)
			return Answer{Documents: []*nodestatus.Document{toptest.Three(0)}}, nil
		}
		start := time.Now()
		err := Run(t.Context(), Config{Source: slow, Interval: time.Second, Sort: "rate", Count: 2, Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
		if took := time.Since(start); err != nil || took != 13*time.Second {
			t.Errorf("three answers of 3 s, pauses of 1 s and 3 s: %s, %v", took, err)
		}
	})
}

// broken is a writer that fails.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestErrors(t *testing.T) {
	gone, full := errors.New("the socket is gone"), errors.New("the disk is full")
	for name, c := range map[string]struct {
		config  Config
		answers []any
		want    error
		errs    string
	}{
		"the first query":      {Config{Count: 2}, []any{gone}, gone, ""},
		"the last query":       {Config{Count: 1}, []any{toptest.Three(0), gone}, gone, ""},
		"one between":          {Config{Count: 2}, []any{toptest.Three(0), gone, toptest.Three(2)}, nil, "error: the socket is gone\n"},
		"the reader has left":  {Config{Out: broken{syscall.EPIPE}}, []any{toptest.Three(0)}, nil, ""},
		"nothing can be print": {Config{Out: broken{full}}, []any{toptest.Three(0)}, full, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if r := run(t.Context(), c.config, c.answers...); !errors.Is(r.err, c.want) || r.errs != c.errs {
					t.Errorf("%v, %q, want %v, %q", r.err, r.errs, c.want, c.errs)
				}
			})
		})
	}
}

func TestHangingSourceTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context, _ nodestatus.Query) (Answer, error) {
			<-ctx.Done()
			return Answer{}, ctx.Err()
		}
		if err := Run(t.Context(), Config{Interval: time.Second, Sort: "rate", Source: hangs}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestInvalidOptionsNameTheirFlag(t *testing.T) {
	for flag, c := range map[string]Config{
		"--interval: ": {Interval: time.Millisecond, Sort: "rate"},
		"--sort: ":     {Interval: time.Second, Sort: "beauty"},
		"--count: ":    {Interval: time.Second, Sort: "rate", Count: -1},
		"-o yaml: ":    {Interval: time.Second, Sort: "rate", Output: "yaml"},
	} {
		if err := Run(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestJSONHasRowsAndSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t.Context(), Config{Count: 1, Output: "json"}, toptest.Three(0), toptest.Three(1))
		var got struct {
			Items   []Row
			Summary Summary
		}
		if err := json.Unmarshal([]byte(r.out), &got); r.err != nil || err != nil || len(got.Items) != 3 {
			t.Fatalf("%v, %v\n%s", r.err, err, r.out)
		}
		if row, sum := got.Items[0], got.Summary; row.Name != "quick" || *row.Rate != 54 || row.Active != 6 || sum.Connections != 90 || sum.Services != 3 {
			t.Errorf("%+v, %+v", row, sum)
		}
	})
}

// tableOf returns the table of one node's document as text.
func tableOf(d *nodestatus.Document, sort string) string {
	var out bytes.Buffer
	t := newTable(Answer{Documents: []*nodestatus.Document{d}}, readings{})
	t.sort(sort)
	_ = t.write(&out, false) // a buffer has no errors
	return out.String() + strings.Join(t.warnings(), "\n")
}

func TestUncountedConnectionsHaveNoColumns(t *testing.T) {
	d := toptest.Three(0)
	d.Counted = false
	text := tableOf(d, "rate")
	if !strings.Contains(text, "--count-connections=false") || strings.Contains(text, "CONN") || !strings.Contains(text, ": 36 active connections;") {
		t.Error(text)
	}
	if strings.Index(text, "slow") > strings.Index(text, "middle") {
		t.Errorf("they are not sorted by active ones:\n%s", text)
	}
}

// TestFastPathIsShownIfOn has connections on the fast path of a node, before and after it was
// turned off.
func TestFastPathIsShownIfOn(t *testing.T) {
	d := toptest.Document(0, toptest.Service("a", "web", 1, 5))
	for i := range d.Services[0].Ports {
		d.Services[0].Ports[i].FastPath = 2
	}
	if text := tableOf(d, "rate"); strings.Contains(strings.ToLower(text), "fast") {
		t.Errorf("without the flag:\n%s", text)
	}
	d.Health = &nodestatus.Health{FastPath: &nodestatus.FastPath{On: true}}
	if text := tableOf(d, "fast-path"); !strings.Contains(text, ", 12 on the fast path;") || !strings.Contains(text, "ACTIVE   FAST-PATH") {
		t.Errorf("on:\n%s", text)
	}
	d.Health.FastPath = &nodestatus.FastPath{Reason: "another program has a flowtable\x1b"}
	if text := tableOf(d, "rate"); !strings.HasSuffix(text, "node-1 has the fast path off: another program has a flowtable?") || strings.Contains(text, "FAST-PATH") {
		t.Errorf("off:\n%s", text)
	}
}

func TestRowsAreSortedByEachColumn(t *testing.T) {
	broken, idle := toptest.Service("c", "broken", 50, 1), toptest.Service("b", "idle", 7, 0)
	broken.Problems = []nodestatus.Problem{{Object: "Service c/broken", Reason: "AddressConflict", Text: "held by\na/web"}}
	for i := range idle.Ports {
		idle.Ports[i].Endpoints = nil
	}
	d := toptest.Document(0, toptest.Service("a", "web", 1, 9), toptest.Service("b", "Zeta", 13, 3), idle, broken)
	for word, want := range map[string]string{
		"namespace":   "web Zeta idle broken",
		"service":     "Zeta broken idle web",
		"rate":        "web Zeta idle broken", // not known
		"active":      "web Zeta broken idle",
		"connections": "broken Zeta idle web",
		"endpoints":   "web Zeta broken idle",
		"status":      "broken web Zeta idle",
	} {
		var got []string
		for line := range strings.Lines(tableOf(d, word)) {
			got = append(got, strings.Fields(line)[1])
		}
		if text := strings.Join(got[1:len(got)-1], " "); text != want {
			t.Errorf("by %s: %s, want %s", word, text, want)
		}
	}
	if text := tableOf(d, "rate"); !strings.Contains(text, "   AddressConflict: held by; a/web\n") || !strings.Contains(text, "; 1 with problems,") {
		t.Error(text)
	}
}
