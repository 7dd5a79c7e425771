package traffic

import (
	"context"
	stdsync "sync"
	"time"
)

// beat is the interval of a pulse, and faint the delay of a beat by which a pause of the
// machine is detected.
const (
	beat  = 20 * time.Millisecond
	faint = 200 * time.Millisecond
)

// pulse detects pauses of the machine or of this process: a request that timed out in a
// pause proves nothing about rules.
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

// stopped reports whether there was a pause between two times.
func (p *pulse) stopped(from, to time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to.Sub(p.last) > faint { // a pause that is not over
		return true
	}
	for _, s := range p.stops {
		if s.from.Before(to) && s.to.After(from) {
			return true
		}
	}
	return false
}
