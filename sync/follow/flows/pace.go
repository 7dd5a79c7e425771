package flows

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/sync/throttle"
)

const (
	// firstBackoff and maxBackoff are the delays between failed attempts.
	firstBackoff, maxBackoff = time.Second, 30 * time.Second
	// deletionDelay is how long after the removal of its endpoint a flow is deleted at least, and
	// so the shortest pause: replies to earlier packets then arrive, which without the flow would
	// seem to come from a stranger.
	deletionDelay = time.Second
)

// A readPace delays the next read of the kernel's table, after which flows are deleted.
type readPace struct {
	timer   *time.Timer // fires when it is over
	pace    throttle.Throttle
	backoff wait.Backoff
	failing bool // the last attempt failed
	running bool // cleared by the owner when the pause is over
}

func newReadPace(background *throttle.Budget) readPace {
	p := readPace{timer: time.NewTimer(maxBackoff), pace: background.Throttle(deletionDelay)}
	p.timer.Stop()
	return p
}

// begin starts a pause of at least this length after an attempt.
func (p *readPace) begin(failed bool, length time.Duration) {
	if failed && !p.failing {
		p.backoff = wait.Backoff{Duration: firstBackoff, Factor: 2, Jitter: 0.1, Steps: 1 << 10, Cap: maxBackoff}
	}
	if failed {
		length = max(length, p.backoff.Step())
	}
	p.failing, p.running = failed, true
	p.timer.Reset(length)
}
