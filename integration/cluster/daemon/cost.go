package daemon

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// Cost is the cost of a process so far.
type Cost struct {
	// CPU is user and system time.
	CPU time.Duration
	// PeakRSS and RSS are bytes of resident memory, at most ever and now.
	PeakRSS, RSS uint64
}

// Cost returns the cost of the process, which must be running.
func (d *Daemon) Cost() (c Cost, err error) {
	p, err := procfs.NewProc(d.PID())
	if err != nil {
		return c, fmt.Errorf("look up what the proxy costs: %w", err)
	}
	stat, err := p.Stat()
	if err != nil {
		return c, fmt.Errorf("look up what the proxy costs: %w", err)
	}
	status, err := p.NewStatus()
	if err != nil {
		return c, fmt.Errorf("look up what the proxy costs: %w", err)
	}
	return Cost{
		CPU:     time.Duration(stat.CPUTime() * float64(time.Second)),
		PeakRSS: status.VmHWM, RSS: status.VmRSS,
	}, nil
}
