package main

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
)

func TestRingKeepsWarningsWithTheirAttributes(t *testing.T) {
	var kept logRing
	log := slog.New(kept.handler(slog.DiscardHandler))
	log.Info("no warning")
	log.With("task", "loop").WithGroup("kernel").Warn("refused", "errno", 22)
	log.Error("ends")
	lines := strings.Split(strings.TrimSpace(kept.warnings.text()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `msg=refused task=loop kernel.errno=22`) || !strings.Contains(lines[1], "msg=ends") {
		t.Errorf("kept are %q", lines)
	}
	if text := kept.all.text(); !strings.Contains(text, `msg="no warning"`) || !strings.Contains(text, "msg=ends") {
		t.Errorf("all are %q", text)
	}
}

func TestOldestLinesAreDroppedAndCounted(t *testing.T) {
	var kept logRing
	if s := kept.warnings.summary(); s != (nodestatus.Count{}) {
		t.Errorf("of no lines it is %+v", s)
	}
	log := slog.New(kept.handler(slog.DiscardHandler))
	start := time.Now().Truncate(time.Millisecond) // slog.TextHandler has milliseconds
	for i := range 2*maxLines + 1 {
		log.Warn("cannot serve", "n", i)
		s := kept.warnings.summary()
		if s.Count != i+1 || s.Text != fmt.Sprintf("level=WARN msg=\"cannot serve\" n=%d", i) || s.Last.Before(start) || time.Since(s.Last) < 0 {
			t.Fatalf("after %d lines it is %+v", i+1, s)
		}
	}
	lines := strings.Split(strings.TrimSpace(kept.warnings.text()), "\n")
	if len(lines) != maxLines {
		t.Fatalf("%d lines are kept", len(lines))
	}
	for i, line := range lines {
		if want := fmt.Sprintf("n=%d", maxLines+1+i); !strings.HasSuffix(line, want) {
			t.Errorf("line %d is %q, want %s", i, line, want)
		}
	}
}
