package cluster

import stdsync "sync"

// eventsOfNamespace is how many events about objects of one namespace may wait in a
// lane, so that no author can fill it.
const eventsOfNamespace = 8

// shares counts what waits, by namespace. It is safe for use by several goroutines.
type shares struct {
	mu      stdsync.Mutex
	waiting map[string]int
}

func newShares() *shares { return &shares{waiting: map[string]int{}} }

// take reports whether one more may wait, and counts it then. What has no namespace
// is no author's, and may always.
func (s *shares) take(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if namespace != "" && s.waiting[namespace] >= eventsOfNamespace {
		return false
	}
	s.waiting[namespace]++
	return true
}

// give counts one less.
func (s *shares) give(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[namespace]--; s.waiting[namespace] == 0 {
		delete(s.waiting, namespace)
	}
}
