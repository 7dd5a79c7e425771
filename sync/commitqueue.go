package sync

import stdsync "sync"

// A CommitQueue is a [Follower] that hands commits over to another goroutine.
type CommitQueue struct {
	mu      stdsync.Mutex
	commits []Committed
	ready   chan struct{} // has room for one token
}

// NewCommitQueue returns an empty queue.
func NewCommitQueue() *CommitQueue { return &CommitQueue{ready: make(chan struct{}, 1)} }

// Follow implements [Follower].
func (q *CommitQueue) Follow(c Committed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.commits = append(q.commits, c)
	select {
	case q.ready <- struct{}{}:
	default: // signaled already
	}
}

// Ready returns a channel that delivers when commits have come.
func (q *CommitQueue) Ready() <-chan struct{} { return q.ready }

// Take removes and returns all commits, in order.
func (q *CommitQueue) Take() []Committed {
	q.mu.Lock()
	defer q.mu.Unlock()
	commits := q.commits
	q.commits = nil
	return commits
}
