// Package throttle bounds what repeated work of this process costs. At most, of one processor:
//
//	1/20    comparing our tables with the desired state, while others change nf_tables
//	1/10    changes of one namespace, while others have changes, too
//	1/5     ending flows to removed endpoints, elapsed time
//	1/71    evicting clients with session affinity, while the map is full
//	1/71    counting connections for least connections, and a fifth more for garbage
//	1/100   simulating the packets by which the node checks itself
//	0.4 %   reading connections for passive health checks, of each family and protocol; 0.025 % while
//	        none may count; over UDP twice that, or a reading in 25 s; counters of connections: 0.05 %
//	1/21    reading who waits for an endpoint; the same for their clients, and for connections, while
//	        a Service scales to zero; the same for what to report of it
//	1/10    reading connection counters, or all connections for status and top, elapsed time
//	1/11    the page of this node, while it is open in a browser, elapsed time
package throttle

import (
	"runtime"
	"time"
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

	until time.Time
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
	t.until = time.Now().Add(pause)
	return pause
}

// Remaining returns how much of the pause remains; zero if the work may be done now.
func (t *Throttle) Remaining() time.Duration { return max(0, time.Until(t.until)) }
