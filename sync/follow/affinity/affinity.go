// Package affinity evicts clients from a full map of clients with session affinity, and
// reports it. The kernel records the clients and forgets removed endpoints by itself (see
// package nft); it also counts the connections whose client it could not record. While it
// does, the namespaces that have more than their share of the map lose clients.
package affinity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
	"kube-vmap/sync/throttle"
)

const (
	// capacity is how many clients of a map all namespaces may keep after an eviction.
	capacity = nft.MaxClients * 3 / 4
	// batchSize is how many clients one transaction deletes.
	batchSize = 1000
	// minExpires is the minimum time left of a client to evict: others may expire before
	// the transaction, which the kernel would refuse.
	minExpires = 5 * time.Second
	// pauseFactor times the processor time of an eviction is the pause after it.
	pauseFactor = 70
)

// ReasonForgotten is the reason of the event that clients of a Service were forgotten.
const ReasonForgotten = "ClientsForgotten"

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
	rose     [len(model.Families)]bool   // a total, since the last eviction
	pace     throttle.Throttle           // of lists of the maps
	notices  *sync.Notices
}

// New returns a Reader; it does nothing before Run.
func New(c Config) *Reader {
	r := &Reader{
		Config: c, Queue: follow.NewQueue(), services: map[model.Match]sync.Object{},
		pace: c.Background.Throttle(0), notices: sync.NewNotices(c.Recorder, c.Log),
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
			r.rose[f] = true
		}
		r.reported[f] = total
		r.Full(f, total)
	}
	if slices.Contains(r.rose[:], true) && r.pace.Remaining() == 0 {
		r.pace.Do(r.evict)
	}
}

// applyCommits brings the Services up to date.
func (r *Reader) applyCommits() {
	for _, c := range r.Take() {
		follow.Update(r.services, c, func(f *model.Frontend, _ sync.Object, _ bool) (sync.Object, bool) {
			s := f.Service
			return sync.Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name, UID: f.Pool.UID},
				f.IsClusterIP() && f.Pool.Affinity != 0
		}, func(model.Match, sync.Object) {})
	}
	r.services = model.Shrink(r.services, &r.peak)
}

func (r *Reader) evict() {
	r.applyCommits()
	for _, f := range model.Families {
		if !r.rose[f] {
			continue
		}
		r.rose[f] = false
		for _, local := range []bool{false, true} {
			if err := r.cutAll(nft.SetID{Family: f, Kind: nft.SetAffinity, Local: local}); err != nil {
				r.Log.Warn("no room made in the affinity map, retrying", "err", err)
			}
		}
	}
}

// A namespace has clients in a map.
type namespace struct {
	name    string
	clients int
	list    []nft.Client // those that do not expire soon
}

// cutAll evicts clients of the namespaces that have more than their fair share of a map.
// Destinations without a Service count as one namespace.
func (r *Reader) cutAll(id nft.SetID) error {
	namespaces := map[string]*namespace{}
	err := r.Kernel.Clients(id, func(c nft.Client) {
		name := r.services[c.Destination].Namespace
		n := namespaces[name]
		if n == nil {
			n = &namespace{name: name}
			namespaces[name] = n
		}
		n.clients++
		if c.Expires >= minExpires {
			n.list = append(n.list, c)
		}
	})
	if err != nil {
		return err // of a part, no share is known
	}
	var counts []int
	for _, n := range namespaces {
		counts = append(counts, n.clients)
	}
	share := model.FairShare(capacity, counts)
	for _, n := range namespaces {
		if n.clients > share {
			err = errors.Join(err, r.cut(id, n, share))
		}
	}
	return err
}

// cut evicts clients of a namespace until the others are within its share. If a transaction
// is refused because a client no longer exists, its clients stay.
func (r *Reader) cut(id nft.SetID, n *namespace, share int) (err error) {
	services, forgotten := sets.New[sync.Object](), 0
	for part := range slices.Chunk(n.list[:min(len(n.list), n.clients-share)], batchSize) {
		if _, err = r.Kernel.Apply(nft.Batch{nft.Forget(id, part)}); errors.Is(err, fs.ErrNotExist) {
			err = nil
			continue
		} else if err != nil {
			err = fmt.Errorf("delete clients: %w", err)
			break
		}
		forgotten += len(part)
		for _, c := range part {
			services.Insert(r.services[c.Destination])
		}
	}
	if forgotten == 0 {
		return err
	}
	r.Log.Warn("clients forgotten: their namespace has more than its share of the affinity map",
		"family", id.Family.String(), "map", id.Name(), "namespace", n.name,
		"forgotten", forgotten, "clients", n.clients, "share", share)
	services.Delete(sync.Object{}) // destinations without a Service
	for s := range services {
		r.notices.Notify(s, ReasonForgotten, id.Family.String()+" clients were forgotten, and may get another endpoint: "+
			"its namespace has more than its share of the clients that a node remembers")
	}
	return err
}
