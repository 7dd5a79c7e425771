package logring_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/kube-vmap/logring"
)

func TestRingKeepsWarningsWithTheirAttributes(t *testing.T) {
	var kept logring.Log
	log := slog.New(kept.Handler(slog.DiscardHandler))
	log.Info("no warning")
	log.With("task", "loop").WithGroup("kernel").Warn("refused", "errno", 22)
	log.Error("ends")
	lines := strings.Split(strings.TrimSpace(kept.Text()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `msg=refused task=loop kernel.errno=22`) || !strings.Contains(lines[1], "msg=ends") {
		t.Errorf("kept are %q", lines)
	}
	if text := kept.InfoText(); !strings.Contains(text, `msg="no warning"`) || !strings.Contains(text, "msg=ends") {
		t.Errorf("all are %q", text)
	}
}

func TestOldestLinesAreDropped(t *testing.T) {
	var kept logring.Log
	log := slog.New(kept.Handler(slog.DiscardHandler))
	for i := range 1000 {
		log.Warn("no", "n", i)
	}
	lines := strings.Split(strings.TrimSpace(kept.Text()), "\n")
	if len(lines) != 200 {
		t.Fatalf("%d lines are kept", len(lines))
	}
	for i, line := range lines {
		if want := fmt.Sprintf("n=%d", 800+i); !strings.HasSuffix(line, want) {
			t.Errorf("line %d is %q, want %s", i, line, want)
		}
	}
}

func TestSummaryCountsEveryLine(t *testing.T) {
	var kept logring.Log
	if s := kept.Summary(); s != (logring.Summary{}) {
		t.Errorf("of no lines it is %+v", s)
	}
	log := slog.New(kept.Handler(slog.DiscardHandler))
	start := time.Now().Truncate(time.Millisecond) // slog.TextHandler has milliseconds
	for i := range 201 {
		log.Warn("cannot serve", "n", i)
		s := kept.Summary()
		if s.Count != i+1 || s.Text != fmt.Sprintf("level=WARN msg=\"cannot serve\" n=%d", i) || s.Last.Before(start) || time.Since(s.Last) < 0 {
			t.Fatalf("after %d lines it is %+v", i+1, s)
		}
	}
}
