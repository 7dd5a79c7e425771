package cluster

import (
	"context"
	"log/slog"
	stdsync "sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// A shortWatchDetector logs when watches repeatedly end right after they began, and
// when they last again. [outageLog] does not see that, because the server responds.
type shortWatchDetector struct {
	log *slog.Logger

	mu       stdsync.Mutex
	inARow   map[string]int  // short watches in a row, by kind
	reported map[string]bool // kinds whose watches are too short
	since    time.Time
}

const (
	shortWatch      = 5 * time.Second // a watch that ends sooner is short
	maxShortWatches = 5               // so many in a row are logged
	longWatch       = time.Minute     // one that lasts this long ends the problem
)

func newShortWatchDetector(log *slog.Logger) *shortWatchDetector {
	return &shortWatchDetector{log: log, inARow: map[string]int{}, reported: map[string]bool{}}
}

// isActive reports whether short watches of any kind were logged and still occur.
func (s *shortWatchDetector) isActive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.reported) > 0
}

// observe returns w, measuring how long it lasts unless ctx ends first.
func (s *shortWatchDetector) observe(ctx context.Context, kind string, w watch.Interface) watch.Interface {
	start := time.Now()
	long := time.AfterFunc(longWatch, func() { s.recovered(kind) })
	return &observedWatch{Interface: w, onStop: stdsync.OnceFunc(func() {
		long.Stop()
		if ctx.Err() == nil {
			s.ended(kind, time.Since(start))
		}
	})}
}

// ended records the length of a watch.
func (s *shortWatchDetector) ended(kind string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d >= shortWatch {
		s.inARow[kind] = 0
		return
	}
	s.inARow[kind]++
	if s.inARow[kind] < maxShortWatches || s.reported[kind] {
		return
	}
	if len(s.reported) == 0 {
		s.since = time.Now()
		s.log.Warn("API watches end too soon, changes may arrive late", "kind", kind)
	}
	s.reported[kind] = true
}

// recovered records that a watch has lasted.
func (s *shortWatchDetector) recovered(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inARow[kind] = 0
	if !s.reported[kind] {
		return
	}
	delete(s.reported, kind)
	if len(s.reported) == 0 {
		s.log.Info("API watches last again", "duration", time.Since(s.since).Round(time.Millisecond).String())
	}
}

// An observedWatch calls onStop when its reader stops it, which the reader also does
// when the watch has ended by itself.
type observedWatch struct {
	watch.Interface
	onStop func()
}

// Stop implements [watch.Interface].
func (m *observedWatch) Stop() {
	m.onStop()
	m.Interface.Stop()
}
