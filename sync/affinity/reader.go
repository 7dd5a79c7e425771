// Package affinity reports that the map of clients with session affinity is full. The kernel
// records the clients and forgets removed endpoints by itself (see package nft); it also
// counts the connections whose client it could not record.
package affinity

import (
	"context"
	"log/slog"
	"time"

	"kube-vmap/model"
)

// Kernel is the part of [kernel.Kernel] that is used, by one goroutine.
type Kernel interface {
	AffinityFull(model.Family) (uint64, error)
}

// Config configures a [Reader].
type Config struct {
	Kernel Kernel
	Log    *slog.Logger
	// Full is called with the number of connections of a family, in total, whose client
	// was not remembered because the map was full.
	Full func(f model.Family, total uint64)
}

// A Reader reads the counters of connections whose client was not remembered.
type Reader struct {
	Config
	reported [len(model.Families)]uint64 // last reported totals
}

// New returns a Reader; it does nothing before Run.
func New(c Config) *Reader { return &Reader{Config: c} }

// period is the time between reads of the counters.
const period = 15 * time.Second

// Run reads the counters until ctx ends, which is not an error.
func (r *Reader) Run(ctx context.Context) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			r.read()
		}
	}
}

func (r *Reader) read() {
	for _, f := range model.Families {
		total, err := r.Kernel.AffinityFull(f)
		if err != nil {
			r.Log.Debug("affinity counter not readable", "err", err)
			continue
		}
		if total > r.reported[f] {
			r.Log.Warn("affinity map full, new clients are not remembered",
				"family", f.String(), "connections", total-r.reported[f], "period", period.String())
		}
		r.reported[f] = total
		r.Full(f, total)
	}
}
