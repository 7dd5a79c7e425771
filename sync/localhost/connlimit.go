package localhost

import (
	"log/slog"
	stdsync "sync"
	"time"

	"kube-vmap/sync/listen"
)

// warnInterval is the least time between two warnings about the limit.
const warnInterval = time.Minute

// A connLimit limits the number of open connections.
type connLimit struct {
	max int
	log *slog.Logger

	mu          stdsync.Mutex // guards the following
	open        int
	refused     int // since the last warning
	lastWarning time.Time
}

// acquire counts a connection to a socket. It reports false at the limit.
func (p *connLimit) acquire(s listen.Socket) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open < p.max {
		p.open++
		return true
	}
	p.refused++
	if time.Since(p.lastWarning) >= warnInterval {
		p.log.Warn("too many connections to node ports on localhost, resetting new ones",
			"limit", p.max, "rejected", p.refused, "service", s.Service.String())
		p.lastWarning, p.refused = time.Now(), 0
	}
	return false
}

// release counts one connection less.
func (p *connLimit) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}
