package sync

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// The first and the longest wait before something that failed is retried.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// newBackoff returns waits that double from minBackoff up to longest; zero stands for
// maxBackoff.
func newBackoff(longest time.Duration) wait.Backoff {
	if longest == 0 {
		longest = maxBackoff
	}
	return wait.Backoff{Duration: minBackoff, Factor: 2, Jitter: 0.1, Steps: 1 << 10, Cap: longest}
}

// stoppedTimer returns a timer that does not run.
func stoppedTimer() *time.Timer {
	t := time.NewTimer(maxBackoff)
	t.Stop()
	return t
}
