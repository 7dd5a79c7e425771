// Package throttle bounds what repeated work of this process costs. Of one processor, the following
// together take at most a twentieth (see [Budget]); by itself, each takes at most:
//
//	1/20    comparing our tables with the desired state, while others change nf_tables, elapsed time
//	1/20    ending flows to removed endpoints
//	1/71    evicting clients with session affinity, while the map is full
//	1/71    counting connections for least connections
//	1/100   simulating the packets by which the node checks itself
//	1/20    reading who waits for an endpoint; their clients, and connections, while a Service scales
//	        to zero; comparing what to report of it
//	1/20    steps of endpoints that start slowly
//	1/20    reading connection counters; for passive health checks, 1/2001
//
// Readings of connections for passive health checks take 0.4 %, of each family and protocol; 0.025 %
// while none may count; over UDP twice that, or a reading in 25 s. With these, and a fifth more for
// garbage, which other threads collect, background work takes at most a tenth.
//
// Each reads for itself. One reader of connection tracking for all would send every entry each time,
// 200,000 in 470 ms of processor time. The ones without a reply, or over UDP, take 70 ms, since the
// kernel selects them.
//
// Other bounds are for work that is requested: a tenth for changes of one namespace, while others
// have changes, too; a tenth, elapsed time, for the connections that status lists; an eleventh
// for answers to a browser.
package throttle

import (
	"maps"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// A Throttle separates repetitions of work by a multiple of what the last one took. It takes
// at most one part in Factor+1 of a processor. The zero value makes no pause. It is not safe for
// concurrent use.
type Throttle struct {
	// Factor times what work took is the pause after it, at least Min and, unless it is zero, at
	// most Max.
	Factor   int
	Min, Max time.Duration
	// ProcessorTime returns the processor time of the calling thread, if that counts; nil means
	// that elapsed time does. On a busy node other programs use most of that.
	ProcessorTime func() time.Duration

	budget *Budget
	until  time.Time
}

// Do works, begins the pause and returns its length.
func (t *Throttle) Do(work func()) (pause time.Duration) {
	if t.ProcessorTime == nil {
		start := time.Now()
		work()
		return t.Pause(time.Since(start))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := t.ProcessorTime()
	work()
	return t.Pause(t.ProcessorTime() - before)
}

// Pause begins the pause after work that took so long, and returns its length.
func (t *Throttle) Pause(took time.Duration) time.Duration {
	pause := max(t.Min, time.Duration(t.Factor)*took)
	if t.Max > 0 {
		pause = min(pause, t.Max)
	}
	if t.budget != nil {
		pause = t.budget.stretch(t, took, pause)
	}
	t.until = time.Now().Add(pause)
	return pause
}

// Remaining returns how much of the pause remains; zero if the work may be done now.
func (t *Throttle) Remaining() time.Duration { return max(0, time.Until(t.until)) }

// A Budget bounds what all its throttles take together, as soon as each has paused: one part in
// [BudgetParts] of a processor. All have the same share of it, and what one does not need goes to the
// others: large ones never delay small ones. It is safe for concurrent use. Throttles of a nil one
// share nothing.
type Budget struct {
	// ProcessorTime is as in [Throttle]; nil means [ThreadCPUTime].
	ProcessorTime func() time.Duration

	mu    sync.Mutex
	works map[*Throttle]need
}

// A need is what a throttle would take of a processor by itself, in billionths, until its pause ends.
type need struct {
	parts int
	until time.Time
}

// BudgetParts is the part of a processor that all throttles of a [Budget] take together.
const BudgetParts = 20

const processor = 1_000_000_000

// Throttle returns a throttle of work that takes processor time from the budget, with the least pause.
func (b *Budget) Throttle(least time.Duration) Throttle {
	t := Throttle{Factor: BudgetParts - 1, Min: least, ProcessorTime: ThreadCPUTime, budget: b}
	if b != nil && b.ProcessorTime != nil {
		t.ProcessorTime = b.ProcessorTime
	}
	return t
}

// stretch returns the pause after work that took so long, of at least the given length.
func (b *Budget) stretch(t *Throttle, took, pause time.Duration) time.Duration {
	if took <= 0 {
		return pause
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(b.works, func(_ *Throttle, n need) bool { return !n.until.After(now) })
	if b.works == nil {
		b.works = map[*Throttle]need{}
	}
	own := need{parts: int(float64(took) / float64(took+pause) * processor)}
	b.works[t] = own
	var all []int
	for _, n := range b.works {
		all = append(all, n.parts)
	}
	if share := model.FairShare(processor/BudgetParts, all); own.parts > share {
		pause = time.Duration(float64(took) * (processor/float64(share) - 1))
	}
	own.until = now.Add(pause + took) // until it has worked again
	b.works[t] = own
	return pause
}

// ThreadCPUTime returns the processor time of the calling thread, or zero if the kernel
// does not say.
func ThreadCPUTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
