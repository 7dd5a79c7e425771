package affinity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"slices"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// Kernel is the part of [kernel.Kernel] that is used, by one goroutine.
type Kernel interface {
	EachPart(nft.SetID, func([]nft.Element)) error
	Apply(nft.Batch) (nft.Applied, error)
	AffinityFull(model.Family) (uint64, error)
}

// Config configures a [Pruner].
type Config struct {
	Kernel Kernel
	Log    *slog.Logger
	// Full, unless it is nil, is called with the number of connections of a family, in
	// total, whose client was not remembered because the map was full.
	Full func(f model.Family, total uint64)
}

// A Pruner is a [sync.Follower] that deletes affinity of clients to endpoints that no
// longer serve them.
type Pruner struct {
	Config
	wake     chan struct{}
	reported [len(model.Families)]uint64 // last reported totals; of Run's goroutine

	mu      stdsync.Mutex
	pools   map[model.Match]*model.Pool // those with affinity
	pending [len(model.Families)]bool   // the maps may have removed endpoints
}

// New returns a Pruner; it does nothing before Run.
func New(c Config) *Pruner {
	return &Pruner{Config: c, wake: make(chan struct{}, 1), pools: map[model.Match]*model.Pool{}}
}

// Follow implements [sync.Follower].
func (p *Pruner) Follow(t sync.Committed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.Full {
		clear(p.pools)
		p.pending = [...]bool{true, true}
	}
	for i := range t.Set {
		if f := &t.Set[i]; f.OwnsPool() {
			p.setPool(f.Pool)
		}
	}
	for _, m := range t.Gone {
		p.setPool(&model.Pool{Key: m})
	}
	if p.pending != [len(model.Families)]bool{} {
		p.wakeUp()
	}
}

// setPool records a pool's endpoints.
func (p *Pruner) setPool(pool *model.Pool) {
	before := p.pools[pool.Key]
	delete(p.pools, pool.Key)
	if pool.Affinity > 0 {
		p.pools[pool.Key] = pool
	}
	if before != nil && (pool.Affinity == 0 || lostEndpoint(before.Cluster, pool.Cluster) || lostEndpoint(before.Local, pool.Local)) {
		p.pending[pool.Key.Family] = true
	}
}

// lostEndpoint reports whether an endpoint of before is not in now; both are sorted.
func lostEndpoint(before, now []netip.AddrPort) bool {
	return slices.ContainsFunc(before, func(e netip.AddrPort) bool { return !has(now, e) })
}

// has reports whether a sorted list has an endpoint.
func has(list []netip.AddrPort, e netip.AddrPort) bool {
	_, found := slices.BinarySearchFunc(list, e, netip.AddrPort.Compare)
	return found
}

const (
	counterPeriod = 15 * time.Second // between reads of the counters
	retryPeriod   = time.Second      // after a failure
	// restFactor is how many times longer the pause is than the work before it, so that
	// constantly changing endpoints use at most a fifth of a processor.
	restFactor = 4
)

// Run prunes and reads counters until ctx ends, which is not an error.
func (p *Pruner) Run(ctx context.Context) error {
	counted := time.NewTicker(counterPeriod)
	defer counted.Stop()
	var resting <-chan time.Time
	for {
		wake := p.wake
		if resting != nil {
			wake = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-counted.C:
			p.readCounters()
		case <-resting:
			resting = nil
		case <-wake:
			resting = p.prune()
		}
	}
}

// prune prunes what is pending. The returned channel delivers when to continue.
func (p *Pruner) prune() <-chan time.Time {
	start := time.Now()
	if err := p.prunePending(); err != nil {
		p.Log.Error("affinity to removed endpoints not deleted, retrying",
			"period", retryPeriod.String(), "err", err)
		p.wakeUp()
		return time.After(retryPeriod)
	}
	return time.After(restFactor * time.Since(start))
}

// wakeUp makes Run prune.
func (p *Pruner) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Pruner) prunePending() (err error) {
	p.mu.Lock()
	pending := p.pending
	clear(p.pending[:])
	p.mu.Unlock()
	for _, f := range model.Families {
		if pending[f] {
			if e := p.pruneFamily(f); e != nil {
				p.setPending(f)
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

func (p *Pruner) setPending(f model.Family) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending[f] = true
}

// pruneFamily deletes the stale elements of both maps of a family.
func (p *Pruner) pruneFamily(f model.Family) error {
	for _, local := range [...]bool{false, true} {
		id := nft.SetID{Family: f, Kind: nft.SetAffinity, Local: local}
		if err := p.pruneMap(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete from map %s %s: %w", nft.FamilyName(f), id.Name(), err)
		}
	}
	return nil
}

// maxListings limits how often a map is listed until no stale element is found: a listing
// of a growing map may miss some, and one may time out before it is deleted.
const maxListings = 10

func (p *Pruner) pruneMap(id nft.SetID) error {
	deleted := 0
	for range maxListings {
		stale, err := p.stale(id)
		if err != nil {
			return err
		}
		if len(stale) == 0 {
			if deleted > 0 {
				p.Log.Debug("stale affinity deleted", "map", id.Name(), "family", id.Family.String(), "clients", deleted)
			}
			return nil
		}
		for part := range slices.Chunk(stale, batchSize) {
			_, err := p.Kernel.Apply(nft.Batch{nft.DeleteElements{Set: id, Elements: part}})
			switch {
			case err == nil:
				deleted += len(part)
			case !errors.Is(err, fs.ErrNotExist):
				return err
			}
		}
	}
	return fmt.Errorf("stale elements after %d listings", maxListings)
}

// batchSize is how many elements one transaction deletes. If one has timed out since it
// was listed, the transaction deletes none.
const batchSize = 2048

// stale lists the elements whose endpoint is not in their pool.
func (p *Pruner) stale(id nft.SetID) (out []nft.Element, err error) {
	err = p.Kernel.EachPart(id, func(part []nft.Element) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, e := range part {
			pool := p.pools[model.Match{Family: id.Family, Addr: e.Key.Addr, Protocol: e.Key.Protocol, Port: e.Key.Port}]
			if pool == nil || !has(endpoints(pool, id.Local), e.Value.Endpoint) {
				out = append(out, e)
			}
		}
	})
	return out, err
}

func endpoints(pool *model.Pool, local bool) []netip.AddrPort {
	if local {
		return pool.Local
	}
	return pool.Cluster
}

// readCounters reports how many connections were not remembered.
func (p *Pruner) readCounters() {
	for _, f := range model.Families {
		total, err := p.Kernel.AffinityFull(f)
		if err != nil {
			p.Log.Debug("affinity counter not readable", "err", err)
			continue
		}
		if total > p.reported[f] {
			p.Log.Warn("affinity map full, new clients are not remembered",
				"family", f.String(), "connections", total-p.reported[f], "period", counterPeriod.String())
		}
		p.reported[f] = total
		if p.Full != nil {
			p.Full(f, total)
		}
	}
}
