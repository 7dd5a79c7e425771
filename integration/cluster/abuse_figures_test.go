package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// Budgets for what one tenant of a cluster may cost the node and the other tenants. A
// correct proxy needs two to three times less, so that a busy machine does not fail the
// test; an object that costs more than it should exceeds them by far.
const (
	// maxAnswer is how long a request to the victim may take. One without an answer within
	// [traffic.Timeout] fails in any case.
	maxAnswer = 700 * time.Millisecond
	// maxFollow is how long the change of another Service may take from the API's
	// answer to the first packet that follows it. Kubernetes' objective is 1 s for a
	// cluster that is not under attack (network programming latency).
	maxFollow = 3 * time.Second
	// maxLock is how long a transaction may block nf_tables for other programs. The mark
	// is 100 ms, and tested in package neighbour: here the API server and others preempt
	// the proxy while it holds the lock.
	maxLock = 400 * time.Millisecond
	// maxCPU is for a phase of an attack, and maxCPUPerMB for each megabyte of objects to
	// decode. It includes the changes of the other Service.
	maxCPU, maxCPUPerMB = 3 * time.Second, 150 * time.Millisecond
	// maxRSS is the growth of the peak of resident memory. An object of 1.5 MB is several
	// times as large when decoded, and the garbage collector lets the heap double: to delete
	// 200,000 elements, object by object, takes 115 to 330 MB, as it happens to collect.
	maxRSS = 400 << 20
	// maxHeap is the growth of live memory, with the objects in place.
	maxHeap = 100 << 20
	// maxLines and maxBytes are for the log of a phase, with an addition for each object:
	// each may be invalid, which is logged with up to 20 errors of 256 bytes.
	maxLines, maxLinesPerWrite = 500, 3
	maxBytes, maxBytesPerWrite = 128 << 10, 8 << 10
	// maxEvents is how many Events a phase may create in the API. They are rate-limited,
	// with a small burst.
	maxEvents = 60
	// maxElements is of all sets together. An element takes about 150 bytes of the
	// kernel's memory.
	maxElements = 250_000
	// maxObjects is for chains and sets. The kernel finds each by walking a list. Where
	// one Service uses the scheduler mh, all share a chain and a map for each of its
	// 251 slots, by family.
	maxObjects = 2500
)

// Limits for what remains of an attack when all its objects are deleted.
const (
	// maxHeapLeft is for maps, which do not shrink, and maxGoroutinesLeft for those of
	// connections and requests.
	maxHeapLeft, maxGoroutinesLeft = 16 << 20, 8
	// maxRSSLeft is for memory that the runtime returns later.
	maxRSSLeft = 200 << 20
)

// figures are the costs of a phase of an attack.
type figures struct {
	attack, phase string

	writes, written int           // objects, and their bytes as JSON
	took            time.Duration // until the proxy had followed
	answer, follow  time.Duration // the longest
	lock            time.Duration // the longest
	cpu             time.Duration
	rss, heap       int64 // beyond those of before: the peak, and what is live
	lines, bytes    int   // of the log
	events          int
	elements        int // of all sets
	objects         int // chains and sets
}

// limit is a figure and its budget.
type limit struct {
	what           string
	figure, budget int64
}

// limits returns the figures with their budgets.
func (f *figures) limits() []limit {
	mb := float64(f.written) / (1 << 20)
	return []limit{
		{"ns of CPU time", int64(f.cpu), int64(maxCPU) + int64(mb*float64(maxCPUPerMB))},
		{"bytes of resident memory", f.rss, maxRSS},
		{"bytes of live memory", f.heap, maxHeap},
		{"lines of log", int64(f.lines), int64(maxLines + maxLinesPerWrite*f.writes)},
		{"bytes of log", int64(f.bytes), int64(maxBytes + maxBytesPerWrite*f.writes)},
		{"Events", int64(f.events), maxEvents},
		{"elements", int64(f.elements), maxElements},
		{"chains and sets", int64(f.objects), maxObjects},
	}
}

// waits returns how long others waited, which also depends on what else the machine does.
func (f *figures) waits() []limit {
	return []limit{
		{"ns until an answer of the victim", int64(f.answer), int64(maxAnswer)},
		{"ns until a change of another Service was followed", int64(f.follow), int64(maxFollow)},
		{"ns of a transaction of another program", int64(f.lock), int64(maxLock)},
	}
}

// check fails the test for each figure beyond its budget, with -short not for waits.
func (f *figures) check(t *testing.T) {
	t.Helper()
	all := f.limits()
	if !testing.Short() {
		all = append(all, f.waits()...)
	}
	for _, l := range all {
		if l.figure > l.budget {
			t.Errorf("%s: %d %s, budget %d", f.phase, l.figure, l.what, l.budget)
		}
	}
}

// table prints figures in rows.
func table(all []figures) string {
	var rows strings.Builder
	rows.WriteString("attack\tphase\twrites\tMB\ttook\tanswer\tfollow\tlock\tCPU\tRSS MB\theap MB\tlines\tlog KB\tevents\telements\tobjects\t\n")
	for _, f := range all {
		fmt.Fprintf(&rows, "%s\t%s\t%d\t%.1f\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", f.attack, f.phase, f.writes,
			float64(f.written)/(1<<20), short(f.took), short(f.answer), short(f.follow), short(f.lock), short(f.cpu),
			f.rss>>20, f.heap>>20, f.lines, f.bytes>>10, f.events, f.elements, f.objects)
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := w.Write([]byte(rows.String())); err != nil {
		return err.Error()
	}
	if err := w.Flush(); err != nil {
		return err.Error()
	}
	return text.String()
}

func short(d time.Duration) string { return d.Round(time.Millisecond).String() }
