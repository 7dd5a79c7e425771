package traffic

import (
	"testing"
	"time"
)

func TestPulseDetectsPauses(t *testing.T) {
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	var p pulse
	for _, ms := range []int{0, 20, 40, 1040, 1060, 1080} {
		p.beatAt(at(ms))
	}
	for _, c := range []struct {
		from, to int
		want     bool
	}{{0, 30, false}, {30, 1050, true}, {500, 600, true}, {0, 900, true}, {1000, 1100, true}, {1045, 1090, false}, {1045, 2000, true}} {
		if got := p.stopped(at(c.from), at(c.to)); got != c.want {
			t.Errorf("between %d and %d ms it stopped: %t", c.from, c.to, got)
		}
	}
}
