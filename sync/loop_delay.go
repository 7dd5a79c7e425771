package sync

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// How long to wait before something that failed is tried again: the first time,
// and at most. Each time in a row it is twice as long.
const (
	firstDelay = 100 * time.Millisecond
	lastDelay  = 30 * time.Second
)

// delay is a wait that grows each time it begins, until it is reset.
type delay struct {
	timer   *time.Timer
	backoff wait.Backoff
	longest time.Duration
	// running is for its owner to clear when the delay is over.
	running bool
}

// newDelay makes a delay that does not run. Zero stands for the usual longest.
func newDelay(longest time.Duration) *delay {
	if longest == 0 {
		longest = lastDelay
	}
	d := &delay{timer: time.NewTimer(longest), longest: longest}
	d.reset()
	return d
}

// over delivers when the delay is.
func (d *delay) over() <-chan time.Time { return d.timer.C }

// begin starts the delay. One that runs goes on as it is: if whatever happens
// meanwhile put it off, it might never end.
func (d *delay) begin() {
	if !d.running {
		d.running = true
		d.timer.Reset(d.backoff.Step())
	}
}

// beginAtOnce starts a delay of no length.
func (d *delay) beginAtOnce() { d.beginFor(0) }

// beginFor starts a delay of that length.
func (d *delay) beginFor(length time.Duration) {
	d.running = true
	d.timer.Reset(length)
}

// reset ends the delay and makes the next one the first again.
func (d *delay) reset() {
	d.timer.Stop()
	d.running = false
	d.backoff = wait.Backoff{Duration: firstDelay, Factor: 2, Jitter: 0.1, Steps: 1 << 10, Cap: d.longest}
}

// pause is a wait of the same length each time; one of no length never runs.
type pause struct {
	length  time.Duration
	timer   *time.Timer
	running bool // for its owner to clear when the pause is over
}

func newPause(length time.Duration) *pause {
	p := &pause{length: length, timer: time.NewTimer(length)}
	p.timer.Stop()
	return p
}

// over delivers when the pause is.
func (p *pause) over() <-chan time.Time { return p.timer.C }

// begin starts the pause.
func (p *pause) begin() {
	if p.length > 0 {
		p.running = true
		p.timer.Reset(p.length)
	}
}
