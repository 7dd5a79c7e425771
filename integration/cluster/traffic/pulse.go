package traffic

import (
	"context"
	stdsync "sync"
	"time"
)

// beat is how often a pulse beats, and faint how much later than that a beat must
// be to tell of a machine that stood still.
const (
	beat  = 20 * time.Millisecond
	faint = 200 * time.Millisecond
)

// pulse notices when the machine, or this process, stands still: a question that
// was asked then and timed out says nothing about any rule.
type pulse struct {
	mu    stdsync.Mutex
	last  time.Time
	stops []stop
}

// stop is a time without a beat.
type stop struct{ from, to time.Time }

// run beats until ctx ends.
func (p *pulse) run(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for p.beatAt(time.Now()); ; p.beatAt(time.Now()) {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (p *pulse) beatAt(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.last.IsZero() && now.Sub(p.last) > faint {
		p.stops = append(p.stops, stop{p.last, now})
	}
	p.last = now
}

// stopped tells whether the pulse stopped at some time between two.
func (p *pulse) stopped(from, to time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to.Sub(p.last) > faint { // and has not gone on
		return true
	}
	for _, s := range p.stops {
		if s.from.Before(to) && s.to.After(from) {
			return true
		}
	}
	return false
}
