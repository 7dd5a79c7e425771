package flows

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// How long to wait before what failed is tried again: the first time, and at
	// most. Each time in a row it is twice as long.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 30 * time.Second
	// restFactor is for how many times as long as it worked the kernel is then left
	// alone, so that to walk its table takes at most a fifth of one processor,
	// however many changes come.
	restFactor = 4
)

// pause is the wait between two looks at the kernel's table.
type pause struct {
	timer   *time.Timer
	backoff wait.Backoff
	failing bool // the latest look failed
	running bool // for its owner to clear when the pause is over
}

func newPause() pause {
	p := pause{timer: time.NewTimer(maxBackoff)}
	p.timer.Stop()
	return p
}

// over delivers when the pause is.
func (p *pause) over() <-chan time.Time { return p.timer.C }

// takePending starts the pause after a look that took a while.
func (p *pause) begin(failed bool, took time.Duration) {
	if failed && !p.failing {
		p.backoff = wait.Backoff{Duration: minBackoff, Factor: 2, Jitter: 0.1, Steps: 1 << 10, Cap: maxBackoff}
	}
	length := restFactor * took
	if failed {
		length = max(length, p.backoff.Step())
	}
	p.failing, p.running = failed, true
	p.timer.Reset(length)
}
