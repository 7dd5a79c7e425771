package traffic

import (
	"fmt"
	"slices"
	"time"
)

// A busy machine loses a packet now and then. A rule that is missing, if only for
// a moment, loses each that meets it.
const (
	// atOnce is within what time losses are no coincidence.
	atOnce = time.Second
	// rarely is of how many questions one may be lost.
	rarely = 10000
)

// loss is a question that timed out, though the next one was answered.
type loss struct {
	asked time.Time
	what  string
}

// suspicious are the losses that no busy machine explains: those that were not
// alone, or all if there are too many for that many questions.
func suspicious(all []loss, questions int) (out []loss) {
	if len(all) > 1+questions/rarely {
		return all
	}
	slices.SortFunc(all, func(a, b loss) int { return a.asked.Compare(b.asked) })
	for i, l := range all {
		before := i > 0 && l.asked.Sub(all[i-1].asked) < atOnce
		after := i < len(all)-1 && all[i+1].asked.Sub(l.asked) < atOnce
		if before || after {
			out = append(out, l)
		}
	}
	return out
}

// String is when and what.
func (l loss) String() string { return fmt.Sprintf("%s: %s", l.asked.Format("15:04:05.000"), l.what) }
