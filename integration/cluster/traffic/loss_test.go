package traffic

import (
	"testing"
	"time"
)

func TestLossesFailUnlessRareAndAlone(t *testing.T) {
	begin := time.Now()
	at := func(all ...int) (losses []loss) {
		for _, ms := range all {
			losses = append(losses, loss{asked: begin.Add(time.Duration(ms) * time.Millisecond)})
		}
		return losses
	}
	for _, c := range []struct {
		name      string
		losses    []loss
		questions int
		want      int
	}{
		{"none", nil, 100, 0},
		{"one", at(0), 100, 0},
		{"two of few", at(0, 5000), 100, 2},
		{"two of many, far from each other", at(5000, 0), 20000, 0},
		{"two of many at the same time", at(100, 0), 20000, 2},
		{"two of many at the same time, and one alone", at(9000, 0, 900), 30000, 2},
		{"more than rare", at(0, 5000, 10000, 15000), 20000, 4},
	} {
		if got := suspicious(c.losses, c.questions); len(got) != c.want {
			t.Errorf("%s: %d are suspicious, want %d", c.name, len(got), c.want)
		}
	}
}
