package follow

import (
	stdsync "sync"

	"kube-vmap/sync"
)

// A Queue is a [sync.Follower] that hands commits over to another goroutine.
type Queue struct {
	mu      stdsync.Mutex
	commits []sync.Committed
	ready   chan struct{} // capacity one
}

// NewQueue returns an empty queue.
func NewQueue() *Queue { return &Queue{ready: make(chan struct{}, 1)} }

// Follow implements [sync.Follower].
func (q *Queue) Follow(c sync.Committed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.commits = append(q.commits, c)
	select {
	case q.ready <- struct{}{}:
	default: // signaled already
	}
}

// Ready returns a channel that delivers when commits have arrived.
func (q *Queue) Ready() <-chan struct{} { return q.ready }

// Take removes and returns all commits, in order.
func (q *Queue) Take() []sync.Committed {
	q.mu.Lock()
	defer q.mu.Unlock()
	commits := q.commits
	q.commits = nil
	return commits
}
