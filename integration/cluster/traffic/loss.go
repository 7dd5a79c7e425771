package traffic

import (
	"fmt"
	"slices"
	"time"
)

// A busy machine loses a packet now and then. A rule that is missing for a moment loses
// every packet in that moment.
const (
	// atOnce is the interval in which several losses are no coincidence.
	atOnce = time.Second
	// rarely is how many requests there must be for each that is lost.
	rarely = 10000
)

// loss is a request that timed out, although the next one was answered.
type loss struct {
	asked time.Time
	what  string
}

// suspicious returns the losses that a busy machine does not explain: those that were not
// alone, or all if there are too many for that many requests.
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

// String returns time and target.
func (l loss) String() string { return fmt.Sprintf("%s: %s", l.asked.Format("15:04:05.000"), l.what) }
