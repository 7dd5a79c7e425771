package localhost

import (
	"log/slog"
	stdsync "sync"
	"time"

	"kube-vmap/sync/listen"
)

// pause is how long the log stays silent after it was told that all places are
// taken.
const pause = time.Minute

// places bounds how many connections there are at a time.
type places struct {
	max int
	log *slog.Logger

	mu      stdsync.Mutex // guards what follows
	taken   int
	refused int // since told
	told    time.Time
}

// take takes a place for a connection to a socket. It reports false if there is
// none.
func (p *places) take(s listen.Socket) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken < p.max {
		p.taken++
		return true
	}
	p.refused++
	if time.Since(p.told) >= pause {
		p.log.Warn("too many connections to node ports on localhost",
			"max", p.max, "refused", p.refused, "last", s.Service.String())
		p.told, p.refused = time.Now(), 0
	}
	return false
}

// leave gives a place back.
func (p *places) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
}
