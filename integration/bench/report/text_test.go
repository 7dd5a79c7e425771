package report

import (
	"testing"
	"time"
)

func TestTextHasThreeDigits(t *testing.T) {
	for _, c := range []struct {
		cell any
		want string
	}{
		{nil, ""},
		{"ip", "ip"},
		{1234567, "1,234,567"},
		{-123456, "-123,456"},
		{time.Duration(0), ""},
		{1500 * time.Nanosecond, "1.50 us"},
		{12345 * time.Microsecond, "12.3 ms"},
		{90 * time.Second, "90.0 s"},
		{Bytes(9999), "9,999 B"},
		{Bytes(12_345), "12.3 kB"},
		{Bytes(61_234_567), "61.2 MB"},
		{Percent(0.125), "12.5 %"},
		{Ratio(3, 2), "1.50 x"},
		{Ratio(3, 0), ""},
		{13.8, "13.8"},
	} {
		if got := Text(c.cell); got != c.want {
			t.Errorf("Text(%T %[1]v) = %q, want %q", c.cell, got, c.want)
		}
	}
}

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
