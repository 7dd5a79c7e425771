package main

import (
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// law is what the project promises of a replaced endpoint, whatever else there is
// and however a Service can be reached.
type law struct {
	elsewhere, here, local verdict
	bytes                  map[int]bool // of a replaced endpoint elsewhere
	slowest                time.Duration
}

// verdict is whether all changes of one sort were of one size.
type verdict struct{ asked, wrong int }

// note looks at what the changes to one cluster were.
func (l *law) note(change string, c *cluster, t *changeTimes) {
	switch {
	case change == elsewhere:
		l.elsewhere.judge(t, 1)
		for _, n := range t.bytes {
			l.bytes[n] = true
		}
	case change != here:
		return
	case c.external && c.policy == model.PolicyLocal:
		l.local.judge(t, 3)
	default:
		l.here.judge(t, 2)
	}
	if c.size == standard {
		l.slowest = max(l.slowest, t.total.Median())
	}
}

// judge expects n elements to go and as many to come, and nothing else.
func (v *verdict) judge(t *changeTimes, n int) {
	v.asked += len(t.counts)
	for _, c := range t.counts {
		if c != (nft.Counts{Added: n, Deleted: n}) {
			v.wrong++
		}
	}
}

func (v *verdict) kept() bool { return v.asked > 0 && v.wrong == 0 }

func (l *law) promise(b *bench) {
	b.Promise(l.elsewhere.kept(),
		"endpoint elsewhere replaced: one element deleted and one added, whatever the kind of Service")
	b.Promise(len(l.bytes) == 1,
		"endpoint elsewhere replaced: the same number of bytes for all kinds, among 100 and among 10,000")
	b.Promise(l.here.kept(),
		"endpoint of this node replaced: two each, as it may reach itself")
	b.Promise(l.local.kept(),
		"endpoint of this node replaced, Local policy: three each, as it stands in the local map too")
	b.Promise(l.slowest < time.Millisecond,
		"endpoint replaced, all kinds, %s: p50 %s at most, below 1 ms", standard, l.slowest)
}
