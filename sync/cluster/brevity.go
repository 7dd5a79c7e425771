package cluster

import (
	"context"
	"log/slog"
	stdsync "sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// brevity says when watches end as soon as they begin, again and again, and when
// they last again. The server answers then, so to [contact] all is well.
type brevity struct {
	log *slog.Logger

	mu    stdsync.Mutex
	short map[string]int // how many in a row did not last, by kind of objects
	many  map[string]bool
	since time.Time
}

// A watch that lasts is not short after tooShort; after so many that were, it is
// said. All is calm when one has lasted for calmWatch.
const (
	tooShort  = 5 * time.Second
	tooMany   = 5
	calmWatch = time.Minute
)

func newBrevity(log *slog.Logger) *brevity {
	return &brevity{log: log, short: map[string]int{}, many: map[string]bool{}}
}

// told reports whether watches of any kind do not last, and it was said.
func (b *brevity) told() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.many) > 0
}

// measure notes how long a watch lasts, until ctx ends.
func (b *brevity) measure(ctx context.Context, kind string, w watch.Interface) watch.Interface {
	m := &measured{Interface: w}
	began := time.Now()
	calm := time.AfterFunc(calmWatch, func() { b.calm(kind) })
	m.ended = func() {
		calm.Stop()
		if ctx.Err() == nil {
			b.lasted(kind, time.Since(began))
		}
	}
	return m
}

// lasted notes that a watch has ended after so long.
func (b *brevity) lasted(kind string, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d >= tooShort {
		b.short[kind] = 0
		return
	}
	b.short[kind]++
	if b.short[kind] < tooMany || b.many[kind] {
		return
	}
	if len(b.many) == 0 {
		b.since = time.Now()
		b.log.Warn("watches end as soon as they begin, so changes may be late", "kind", kind)
	}
	b.many[kind] = true
}

// calm notes that a watch lasts.
func (b *brevity) calm(kind string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.short[kind] = 0
	if !b.many[kind] {
		return
	}
	delete(b.many, kind)
	if len(b.many) == 0 {
		b.log.Info("watches last again", "after", time.Since(b.since).Round(time.Millisecond).String())
	}
}

// measured is a watch of which it is noted when it ends: whoever reads it stops it
// then, if only because there is nothing more to read.
type measured struct {
	watch.Interface
	once  stdsync.Once
	ended func()
}

// Stop implements [watch.Interface].
func (m *measured) Stop() {
	m.once.Do(m.ended)
	m.Interface.Stop()
}
