package main

import (
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// replacePromise is what the project promises about the replacement of an endpoint,
// whatever the size of the cluster and the kind of Service.
type replacePromise struct {
	elsewhere, here, local sizeCheck
	bytes                  map[int]bool // of a replaced endpoint elsewhere
	slowest                time.Duration
}

// sizeCheck counts changes, and those of another size than expected.
type sizeCheck struct{ checked, wrong int }

// record adds the changes of one cluster.
func (l *replacePromise) record(change string, c *cluster, t *changeTimes) {
	switch {
	case change == elsewhere:
		l.elsewhere.check(t, 1)
		for _, n := range t.bytes {
			l.bytes[n] = true
		}
	case change != here:
		return
	case c.external && c.policy == model.PolicyLocal:
		l.local.check(t, 3)
	default:
		l.here.check(t, 2)
	}
	if c.size == standard {
		l.slowest = max(l.slowest, t.total.Median())
	}
}

// check expects each change to delete n elements and to add n.
func (v *sizeCheck) check(t *changeTimes, n int) {
	v.checked += len(t.counts)
	for _, c := range t.counts {
		if c != (nft.Counts{Added: n, Deleted: n}) {
			v.wrong++
		}
	}
}

func (v *sizeCheck) kept() bool { return v.checked > 0 && v.wrong == 0 }

func (l *replacePromise) promise(b *bench) {
	b.Promise(l.elsewhere.kept(),
		"endpoint elsewhere replaced: one element deleted and one added, whatever the kind of Service")
	b.Promise(len(l.bytes) == 1,
		"endpoint elsewhere replaced: the same number of bytes for all kinds, among 100 and among 10,000")
	b.Promise(l.here.kept(),
		"endpoint of this node replaced: two each, as it may reach itself")
	b.Promise(l.local.kept(),
		"endpoint of this node replaced, Local policy: three each, as it is in the local map too")
	b.Promise(l.slowest < time.Millisecond,
		"endpoint replaced, all kinds, %s: p50 %s at most, below 1 ms", standard, l.slowest)
}
