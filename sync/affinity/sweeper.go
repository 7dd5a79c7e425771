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

// Config is what a [Sweeper] is told once.
type Config struct {
	Kernel Kernel
	Log    *slog.Logger
	// Full is told how many connections of a family there were, in all, whose
	// client could not be remembered because the map was full; nil if nobody wants
	// to know.
	Full func(f model.Family, total uint64)
}

// Sweeper follows which endpoints clients may have, and deletes what the kernel
// remembers of others. It is a [sync.Follower].
type Sweeper struct {
	Config
	wake chan struct{}
	full [len(model.Families)]uint64 // as told last; of Run's goroutine

	mu    gosync.Mutex
	pools map[model.Match]*model.Pool // those with affinity
	due   [len(model.Families)]bool   // some client may have what is gone
}

// New makes a Sweeper; it does nothing before Run.
func New(c Config) *Sweeper {
	return &Sweeper{Config: c, wake: make(chan struct{}, 1), pools: map[model.Match]*model.Pool{}}
}

// Follow implements [sync.Follower].
func (s *Sweeper) Follow(t sync.Taken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Whole {
		clear(s.pools)
		s.due = [...]bool{true, true}
	}
	for i := range t.Set {
		if f := &t.Set[i]; f.Owner() {
			s.set(f.Pool)
		}
	}
	for _, m := range t.Gone {
		s.set(&model.Pool{Key: m})
	}
	if s.due != [len(model.Families)]bool{} {
		s.wakeUp()
	}
}

// set notes what a pool is now.
func (s *Sweeper) set(p *model.Pool) {
	before := s.pools[p.Key]
	delete(s.pools, p.Key)
	if p.Affinity > 0 {
		s.pools[p.Key] = p
	}
	if before != nil && (p.Affinity == 0 || lost(before.Cluster, p.Cluster) || lost(before.Local, p.Local)) {
		s.due[p.Key.Family] = true
	}
}

// lost reports whether an endpoint is not there any more; both lists are sorted.
func lost(before, now []netip.AddrPort) bool {
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
	countPeriod = 15 * time.Second
	retryPeriod = time.Second
	// rest is how much longer the sweeper rests than it worked, so that endpoints
	// that come and go all the time cost no more than a fifth of a processor.
	rest = 4
)

// Run works until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	counted := time.NewTicker(countPeriod)
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
			s.count()
		case <-resting:
			resting = nil
		case <-wake:
			resting = s.work()
		}
	}
}

// work sweeps, and says until when to rest.
func (s *Sweeper) work() <-chan time.Time {
	start := time.Now()
	if err := s.sweep(); err != nil {
		s.Log.Error("clients may still go to endpoints that are gone, trying again",
			"every", retryPeriod.String(), "err", err)
		s.wakeUp()
		return time.After(retryPeriod)
	}
	return time.After(rest * time.Since(start))
}

// wakeUp has Run look again.
func (s *Sweeper) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// sweep sweeps what is due.
func (s *Sweeper) sweep() (err error) {
	for _, f := range model.Families {
		if s.takeDue(f) {
			if e := s.sweepFamily(f); e != nil {
				s.setDue(f)
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

func (s *Sweeper) takeDue(f model.Family) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.due[f]
	s.due[f] = false
	return due
}

func (s *Sweeper) setDue(f model.Family) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due[f] = true
}

// sweepFamily deletes what is stale from both maps of a family.
func (s *Sweeper) sweepFamily(f model.Family) error {
	for _, local := range [...]bool{false, true} {
		id := nft.SetID{Family: f, Kind: nft.Affinity, Local: local}
		if err := s.sweepMap(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete from map %s %s: %w", nft.FamilyName(f), id.Name(), err)
		}
	}
	return nil
}

// tries is how often a map is listed until nothing stale is found. A listing of a
// map that grows may miss some elements, and one that was listed may time out
// before it is deleted.
const tries = 10

func (s *Sweeper) sweepMap(id nft.SetID) error {
	deleted := 0
	for range tries {
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
		for part := range slices.Chunk(stale, atOnce) {
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

// atOnce is how many elements one transaction deletes. If one of them timed out
// since it was listed, none of them is deleted.
const atOnce = 2048

// stale lists the elements whose endpoint is not one of their pool.
func (s *Sweeper) stale(id nft.SetID) (out []nft.Element, err error) {
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

// count tells how many connections were not remembered.
func (s *Sweeper) count() {
	for _, f := range model.Families {
		total, err := s.Kernel.AffinityFull(f)
		if err != nil {
			s.Log.Debug("cannot read how many clients were not remembered", "err", err)
			continue
		}
		if total > s.full[f] {
			s.Log.Warn("the affinity map is full: new clients are not remembered",
				"family", f.String(), "connections", total-s.full[f], "period", countPeriod.String())
		}
		s.full[f] = total
		if s.Full != nil {
			s.Full(f, total)
		}
	}
}
