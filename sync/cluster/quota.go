package cluster

import stdsync "sync"

// maxEventsPerNamespace is how many events about objects of one namespace may wait in a
// lane, so that no author can fill it.
const maxEventsPerNamespace = 8

// quota counts what waits, by namespace. It is safe for use by several goroutines.
type namespaceQuota struct {
	mu      stdsync.Mutex
	waiting map[string]int
}

func newNamespaceQuota() *namespaceQuota { return &namespaceQuota{waiting: map[string]int{}} }

// acquire reports whether one more may wait, and counts it then. What has no namespace
// is no author's, and may always.
func (s *namespaceQuota) acquire(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if namespace != "" && s.waiting[namespace] >= maxEventsPerNamespace {
		return false
	}
	s.waiting[namespace]++
	return true
}

// release counts one less.
func (s *namespaceQuota) release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[namespace]--; s.waiting[namespace] == 0 {
		delete(s.waiting, namespace)
	}
}
