// Package affinity evicts clients from a full map of clients with session affinity, and
// reports it. The kernel records the clients and forgets removed endpoints by itself (see
// package nft); it also counts the connections whose client it could not record. While it
// does, the namespaces that have more than their share of the map lose clients (evict.go).
package affinity

import (
	"context"
	"log/slog"
	"math"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
	"kube-vmap/sync/throttle"
)

// Kernel is the part of [kernel.Kernel] in use, by one goroutine.
type Kernel interface {
	Counters(model.Family) ([nft.Counters]uint64, error)
	Clients(nft.SetID, func(nft.Client)) error
	Apply(nft.Batch) (nft.Applied, error)
}

// Config configures a [Reader].
type Config struct {
	Kernel     Kernel
	Log        *slog.Logger
	Recorder   sync.Recorder    // nil means no events
	Background *throttle.Budget // of all background work
	// Full is called with the number of connections of a family, in total, whose client
	// was not remembered because the map was full.
	Full func(f model.Family, total uint64)
}

// A Reader is a [sync.Follower] that reads the counters of connections whose client was not
// remembered. All but Follow is done by one goroutine, Run.
type Reader struct {
	Config
	*follow.Queue
	services map[model.Match]sync.Object // Services with affinity, by the keys of their pools
	peak     int                         // of services
	reported [len(model.Families)]uint64 // last reported totals, at first the greatest number
	pace     throttle.Throttle           // of lists of the maps
}

// New returns a Reader; it does nothing before Run.
func New(c Config) *Reader {
	r := &Reader{
		Config: c, Queue: follow.NewQueue(), services: map[model.Match]sync.Object{},
		pace: c.Background.Throttle(0),
		// The first totals, which may be from before this process, do not count as a rise.
		reported: [...]uint64{model.IPv4: math.MaxUint64, model.IPv6: math.MaxUint64},
	}
	r.pace.Factor = pauseFactor
	return r
}

// period is the time between reads of the counters.
const period = 15 * time.Second

// Run follows commits and reads the counters until ctx ends, which is not an error.
func (r *Reader) Run(ctx context.Context) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.Ready():
			r.applyCommits()
		case <-ticker.C:
			r.read()
		}
	}
}

func (r *Reader) read() {
	var rising []model.Family
	for _, f := range model.Families {
		totals, err := r.Kernel.Counters(f)
		if err != nil {
			r.Log.Debug("affinity counter not readable", "err", err)
			continue
		}
		total := totals[nft.CounterAffinityFull]
		if total > r.reported[f] {
			r.Log.Warn("affinity map full, new clients are not remembered",
				"family", f.String(), "connections", total-r.reported[f], "period", period.String())
			rising = append(rising, f)
		}
		r.reported[f] = total
		r.Full(f, total)
	}
	if len(rising) > 0 && r.pace.Remaining() == 0 {
		r.pace.Do(func() { r.evict(rising) })
	}
}
