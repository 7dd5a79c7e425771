package top

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top/toptest"
)

// run runs without a terminal, in a bubble.
func run(ctx context.Context, t *testing.T, s *toptest.Script, c Config) (out string, took time.Duration, err error) {
	t.Helper()
	var b bytes.Buffer
	if c.Out == nil {
		c.Out = &b
	}
	c.Source, c.Interval, c.Sort = OneNode(s.Get), time.Second, "rate"
	start := time.Now()
	err = Run(ctx, c)
	return b.String(), time.Since(start), err
}

func TestOnceIsOneBlockOfOneInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1)}}
		out, took, err := run(t.Context(), t, s, Config{Count: 1})
		if err != nil || len(s.Asked) != 2 || took != time.Second {
			t.Errorf("%d questions in %s: %v", len(s.Asked), took, err)
		}
		const want = `kube-vmap top  node node-1  version 1.0  from the daemon  12:00:01
3 services  90.0 conn/s  36 active  90 connections  no problems
NAMESPACE  SERVICE  CONN/S  ACTIVE  CONNECTIONS  ENDPOINTS  STATUS
b          quick      54.0       6           54        2/4  OK
c          middle     30.0      12           30        2/4  OK
a          slow        6.0      18            6        2/4  OK
`
		if out != want {
			t.Errorf("prints\n%s, want\n%s", out, want)
		}
	})
}

func TestLinesAreOneBlockForEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1), toptest.Three(2), toptest.Three(3)}}
		out, took, err := run(t.Context(), t, s, Config{Count: 3})
		if err != nil || took != 3*time.Second || strings.Count(out, "\n\n") != 2 || strings.Count(out, "NAMESPACE") != 3 {
			t.Errorf("after %s: %v\n%s", took, err, out)
		}
		if strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && r < ' ' }) {
			t.Errorf("there are control characters:\n%q", out)
		}
	})
}

func TestLinesEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer stop()
		out, _, err := run(ctx, t, &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1)}}, Config{})
		if err != nil || strings.Count(out, "NAMESPACE") != 3 {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// broken is a pipe without a reader.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestLinesEndWhenTheReaderIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1)}}
		if _, took, err := run(t.Context(), t, s, Config{Out: broken{syscall.EPIPE}}); err != nil || took != time.Second {
			t.Errorf("after %s: %v", took, err)
		}
		full := errors.New("the disk is full")
		if _, _, err := run(t.Context(), t, s, Config{Out: broken{full}}); !errors.Is(err, full) {
			t.Errorf("the error is %v, want %v", err, full)
		}
	})
}

func TestLinesContinueAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("the socket is gone")
		out, _, err := run(t.Context(), t, &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1), gone, toptest.Three(3)}}, Config{Count: 3})
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(out, "\n\n")
		for i, block := range blocks {
			if strings.Contains(block, "! ") != (i == 1) || !strings.Contains(block, " 54.0 ") {
				t.Errorf("block %d:\n%s", i, block)
			}
		}
	})
}

func TestErrorOfFirstOrLastAnswerIsReturned(t *testing.T) {
	gone := errors.New("the socket is gone")
	for _, answers := range [][]any{{gone}, {toptest.Three(0), gone}} {
		synctest.Test(t, func(t *testing.T) {
			out, _, err := run(t.Context(), t, &toptest.Script{Answers: answers}, Config{Count: 1})
			if !errors.Is(err, gone) || out != "" {
				t.Errorf("%v, and %q is printed", err, out)
			}
		})
	}
}

func TestHangingSourceTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{Interval: time.Second, Sort: "rate", Out: &bytes.Buffer{}, Source: OneNode(hangs)}
		if err := Run(t.Context(), c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
	})
}

func hangs(ctx context.Context, _ status.Query) (*status.Document, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestLinesShowThatConnectionsAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := toptest.Three(0)
		d.Counted = false
		out, _, err := run(t.Context(), t, &toptest.Script{Answers: []any{d}}, Config{Count: 1})
		if err != nil || !strings.Contains(out, "--count-connections=false") || strings.Contains(out, "CONN/S") {
			t.Errorf("%v\n%s", err, out)
		}
		if strings.Index(out, "slow") > strings.Index(out, "middle") {
			t.Errorf("they are not sorted by active ones:\n%s", out)
		}
	})
}

func TestNamespaceIsInTheQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &toptest.Script{Answers: []any{toptest.Three(0), toptest.Three(1)}}
		out, _, err := run(t.Context(), t, s, Config{Count: 1, Namespace: "b"})
		if err != nil || !strings.Contains(out, "quick") || strings.Contains(out, "slow") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func TestInvalidOptionsNameTheirFlag(t *testing.T) {
	for flag, c := range map[string]Config{
		"--interval": {Interval: time.Millisecond, Sort: "rate"},
		"--sort":     {Interval: time.Second, Sort: "beauty"},
		"--count":    {Interval: time.Second, Sort: "rate", Count: -1},
	} {
		if err := Run(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), flag+": ") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
