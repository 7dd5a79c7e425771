package cluster

import (
	"context"
	"log/slog"
	stdsync "sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// shortWatchDetector says when watches end as soon as they begin, again and again, and when
// they last again. The server answers then, so to [outageLog] all is well.
type shortWatchDetector struct {
	log *slog.Logger

	mu       stdsync.Mutex
	inARow   map[string]int // how many in a row did not last, by kind of objects
	reported map[string]bool
	since    time.Time
}

// A watch that lasts is not short after tooShort; after so many that were, it is
// said. All is calm when one has lasted for calmWatch.
const (
	shortWatch      = 5 * time.Second
	maxShortWatches = 5
	longWatch       = time.Minute
)

func newShortWatchDetector(log *slog.Logger) *shortWatchDetector {
	return &shortWatchDetector{log: log, inARow: map[string]int{}, reported: map[string]bool{}}
}

// onChange reports whether watches of any kind do not last, and it was said.
func (b *shortWatchDetector) isActive() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.reported) > 0
}

// observe notes how long a watch lasts, until ctx ends.
func (b *shortWatchDetector) observe(ctx context.Context, kind string, w watch.Interface) watch.Interface {
	m := &observedWatch{Interface: w}
	began := time.Now()
	calm := time.AfterFunc(longWatch, func() { b.recovered(kind) })
	m.onStop = func() {
		calm.Stop()
		if ctx.Err() == nil {
			b.ended(kind, time.Since(began))
		}
	}
	return m
}

// ended notes that a watch has ended after so long.
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
		b.log.Warn("watches end as soon as they begin, so changes may be late", "kind", kind)
	}
	b.reported[kind] = true
}

// recovered notes that a watch lasts.
func (b *shortWatchDetector) recovered(kind string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inARow[kind] = 0
	if !b.reported[kind] {
		return
	}
	delete(b.reported, kind)
	if len(b.reported) == 0 {
		b.log.Info("watches last again", "after", time.Since(b.since).Round(time.Millisecond).String())
	}
}

// observedWatch is a watch of which it is noted when it ends: whoever reads it stops it
// then, if only because there is nothing more to read.
type observedWatch struct {
	watch.Interface
	once   stdsync.Once
	onStop func()
}

// Stop implements [watch.Interface].
func (m *observedWatch) Stop() {
	m.once.Do(m.onStop)
	m.Interface.Stop()
}
