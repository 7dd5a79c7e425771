package report

import (
	"testing"
	"time"
)

func TestReportNamesWhatDoesNotHold(t *testing.T) {
	r := &Report{}
	r.Promise(true, "%s rules", 10)
	r.MarkRatio("change", 3*time.Millisecond, "floor", 2*time.Millisecond, 1.3)
	r.MarkTime("load", time.Millisecond, "floor", time.Second)
	const want = "not as promised: change: 3.00 ms, bound at most 1.30 x"
	if err := r.Print(nil); err == nil || err.Error() != want {
		t.Errorf("Print: %v, want %q", err, want)
	}
}
