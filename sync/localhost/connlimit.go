package localhost

import (
	"log/slog"
	stdsync "sync"
	"time"

	"kube-vmap/sync/listen"
)

// warnInterval is how long the log stays silent after it was told that all places are
// taken.
const warnInterval = time.Minute

// connLimit bounds how many connections there are at a time.
type connLimit struct {
	max int
	log *slog.Logger

	mu          stdsync.Mutex // guards what follows
	open        int
	refused     int // since told
	lastWarning time.Time
}

// acquire takes a place for a connection to a socket. It reports false if there is
// none.
func (p *connLimit) acquire(s listen.Socket) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open < p.max {
		p.open++
		return true
	}
	p.refused++
	if time.Since(p.lastWarning) >= warnInterval {
		p.log.Warn("too many connections to node ports on localhost",
			"max", p.max, "refused", p.refused, "last", s.Service.String())
		p.lastWarning, p.refused = time.Now(), 0
	}
	return false
}

// release gives a place back.
func (p *connLimit) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}
