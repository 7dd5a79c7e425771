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
func (b *shortWatchDetector) isActive() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.reported) > 0
}

// observe returns w, measuring how long it lasts unless ctx ends first.
func (b *shortWatchDetector) observe(ctx context.Context, kind string, w watch.Interface) watch.Interface {
	start := time.Now()
	long := time.AfterFunc(longWatch, func() { b.recovered(kind) })
	return &observedWatch{Interface: w, onStop: stdsync.OnceFunc(func() {
		long.Stop()
		if ctx.Err() == nil {
			b.ended(kind, time.Since(start))
		}
	})}
}

// ended records the length of a watch.
func (b *shortWatchDetector) ended(kind string, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d >= shortWatch {
		b.inARow[kind] = 0
		return
	}
	b.inARow[kind]++
	if b.inARow[kind] < maxShortWatches || b.reported[kind] {
		return
	}
	if len(b.reported) == 0 {
		b.since = time.Now()
		b.log.Warn("API watches end too soon, changes may arrive late", "kind", kind)
	}
	b.reported[kind] = true
}

// recovered records that a watch has lasted.
func (b *shortWatchDetector) recovered(kind string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inARow[kind] = 0
	if !b.reported[kind] {
		return
	}
	delete(b.reported, kind)
	if len(b.reported) == 0 {
		b.log.Info("API watches last again", "after", time.Since(b.since).Round(time.Millisecond).String())
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
