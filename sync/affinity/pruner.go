package affinity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"slices"
	gosync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// Kernel is what the sweeper needs of the kernel; see [kernel.Kernel]. It is used
// by one goroutine.
type Kernel interface {
	EachPart(nft.SetID, func([]nft.Element)) error
	Apply(nft.Batch) (nft.Applied, error)
	AffinityFull(model.Family) (uint64, error)
}

// Config is what a [Pruner] is told once.
type Config struct {
	Kernel Kernel
	Log    *slog.Logger
	// Full is told how many connections of a family there were, in all, whose
	// client could not be remembered because the map was full; nil if nobody wants
	// to know.
	Full func(f model.Family, total uint64)
}

// Pruner follows which endpoints clients may have, and deletes what the kernel
// remembers of others. It is a [sync.Follower].
type Pruner struct {
	Config
	wake     chan struct{}
	reported [len(model.Families)]uint64 // as told last; of Run's goroutine

	mu      gosync.Mutex
	pools   map[model.Match]*model.Pool // those with affinity
	pending [len(model.Families)]bool   // some client may have what is gone
}

// New makes a Sweeper; it does nothing before Run.
func New(c Config) *Pruner {
	return &Pruner{Config: c, wake: make(chan struct{}, 1), pools: map[model.Match]*model.Pool{}}
}

// Follow implements [sync.Follower].
func (s *Pruner) Follow(t sync.Committed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Full {
		clear(s.pools)
		s.pending = [...]bool{true, true}
	}
	for i := range t.Set {
		if f := &t.Set[i]; f.OwnsPool() {
			s.setPool(f.Pool)
		}
	}
	for _, m := range t.Gone {
		s.setPool(&model.Pool{Key: m})
	}
	if s.pending != [len(model.Families)]bool{} {
		s.wakeUp()
	}
}

// setPool notes what a pool is now.
func (s *Pruner) setPool(p *model.Pool) {
	before := s.pools[p.Key]
	delete(s.pools, p.Key)
	if p.Affinity > 0 {
		s.pools[p.Key] = p
	}
	if before != nil && (p.Affinity == 0 || lostEndpoint(before.Cluster, p.Cluster) || lostEndpoint(before.Local, p.Local)) {
		s.pending[p.Key.Family] = true
	}
}

// lostEndpoint reports whether an endpoint is not there any more; both lists are sorted.
func lostEndpoint(before, now []netip.AddrPort) bool {
	for _, e := range before {
		for len(now) > 0 && now[0].Compare(e) < 0 {
			now = now[1:]
		}
		if len(now) == 0 || now[0] != e {
			return true
		}
		now = now[1:]
	}
	return false
}

func has(list []netip.AddrPort, e netip.AddrPort) bool {
	_, found := slices.BinarySearchFunc(list, e, netip.AddrPort.Compare)
	return found
}

// Times between looks at the counter, and between attempts to sweep.
const (
	counterPeriod = 15 * time.Second
	retryPeriod   = time.Second
	// restFactor is how much longer the sweeper rests than it worked, so that endpoints
	// that come and go all the time cost no more than a fifth of a processor.
	restFactor = 4
)

// Run works until ctx ends.
func (s *Pruner) Run(ctx context.Context) error {
	counted := time.NewTicker(counterPeriod)
	defer counted.Stop()
	var resting <-chan time.Time
	for {
		wake := s.wake
		if resting != nil {
			wake = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-counted.C:
			s.readCounters()
		case <-resting:
			resting = nil
		case <-wake:
			resting = s.prune()
		}
	}
}

// prune sweeps, and says until when to rest.
func (s *Pruner) prune() <-chan time.Time {
	start := time.Now()
	if err := s.prunePending(); err != nil {
		s.Log.Error("clients may still go to endpoints that are gone, trying again",
			"every", retryPeriod.String(), "err", err)
		s.wakeUp()
		return time.After(retryPeriod)
	}
	return time.After(restFactor * time.Since(start))
}

// wakeUp has Run look again.
func (s *Pruner) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// prunePending sweeps what is due.
func (s *Pruner) prunePending() (err error) {
	for _, f := range model.Families {
		if s.takePending(f) {
			if e := s.pruneFamily(f); e != nil {
				s.setPending(f)
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

func (s *Pruner) takePending(f model.Family) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.pending[f]
	s.pending[f] = false
	return due
}

func (s *Pruner) setPending(f model.Family) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[f] = true
}

// pruneFamily deletes what is stale from both maps of a family.
func (s *Pruner) pruneFamily(f model.Family) error {
	for _, local := range [...]bool{false, true} {
		id := nft.SetID{Family: f, Kind: nft.SetAffinity, Local: local}
		if err := s.pruneMap(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete from map %s %s: %w", nft.FamilyName(f), id.Name(), err)
		}
	}
	return nil
}

// maxListings is how often a map is listed until nothing stale is found. A listing of a
// map that grows may miss some elements, and one that was listed may time out
// before it is deleted.
const maxListings = 10

func (s *Pruner) pruneMap(id nft.SetID) error {
	deleted := 0
	for range maxListings {
		stale, err := s.stale(id)
		if err != nil {
			return err
		}
		if len(stale) == 0 {
			if deleted > 0 {
				s.Log.Debug("clients choose a new endpoint", "map", id.Name(), "family", id.Family.String(), "clients", deleted)
			}
			return nil
		}
		for part := range slices.Chunk(stale, batchSize) {
			_, err := s.Kernel.Apply(nft.Batch{nft.DeleteElements{Set: id, Elements: part}})
			switch {
			case err == nil:
				deleted += len(part)
			case !errors.Is(err, fs.ErrNotExist):
				return err
			}
		}
	}
	return errors.New("there is always more")
}

// batchSize is how many elements one transaction deletes. If one of them timed out
// since it was listed, none of them is deleted.
const batchSize = 2048

// stale lists the elements whose endpoint is not one of their pool.
func (s *Pruner) stale(id nft.SetID) (out []nft.Element, err error) {
	err = s.Kernel.EachPart(id, func(part []nft.Element) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range part {
			pool := s.pools[model.Match{Family: id.Family, Addr: e.Key.Addr, Protocol: e.Key.Protocol, Port: e.Key.Port}]
			if pool == nil || !has(endpoints(pool, id.Local), e.Value.Endpoint) {
				out = append(out, e)
			}
		}
	})
	return out, err
}

func endpoints(p *model.Pool, local bool) []netip.AddrPort {
	if local {
		return p.Local
	}
	return p.Cluster
}

// readCounters tells how many connections were not remembered.
func (s *Pruner) readCounters() {
	for _, f := range model.Families {
		total, err := s.Kernel.AffinityFull(f)
		if err != nil {
			s.Log.Debug("cannot read how many clients were not remembered", "err", err)
			continue
		}
		if total > s.reported[f] {
			s.Log.Warn("the affinity map is full: new clients are not remembered",
				"family", f.String(), "connections", total-s.reported[f], "period", counterPeriod.String())
		}
		s.reported[f] = total
		if s.Full != nil {
			s.Full(f, total)
		}
	}
}
