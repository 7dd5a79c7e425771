// Package hold ends the hold of Services whose clients have waited for too long.
//
// While a Service that holds has no endpoint, the kernel drops the packets of new connections and
// records their frontends and clients (package nft, rules_hold.go). Clients send again, and meet the
// endpoint once there is one. This follower reads which frontends have clients. When the first
// packet of an outage is older than the hold, it reports the pool to the loop, and the kernel
// rejects connections until the cluster has an endpoint. A Service that may be scaled to zero is held
// again before its demand ends: without held packets it would never have an endpoint again.
//
// It also bounds how many frontends hold: of more than the kernel can record, the namespaces that
// have more than their fair share reject connections instead.
//
// For Services that may be scaled to zero, it publishes the demand (demand.go).
//
// A restart forgets when an outage began: its hold starts again.
package hold

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
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
	// period is the time between reads of the counter of held packets, while a Service holds.
	period = 250 * time.Millisecond
	// capacity is how many frontends of a family hold. The rest is for those that no longer do.
	capacity = nft.MaxHeld * 3 / 4
	// forgottenAtOnce limits a transaction.
	forgottenAtOnce = 1000
	// staleTime is how old a frontend is that is removed from the set because it does not hold, so no
	// commit on its way says otherwise, and how much later it would expire at least.
	staleTime = 5 * time.Second
)

// Reasons of events about Services.
const (
	// ReasonHoldOver: no endpoint came within the hold.
	ReasonHoldOver = "HoldOver"
	// ReasonNotHeld: the namespace has more than its share of the frontends that hold.
	ReasonNotHeld = "NotHeld"
	// ReasonWaiting: clients wait for an endpoint.
	ReasonWaiting = "ClientsWaiting"
)

// Kernel is the part of [kernel.Kernel] in use, by one goroutine.
type Kernel interface {
	Counters(model.Family) ([nft.Counters]uint64, error)
	Clients(nft.SetID, func(nft.Client)) error
	Apply(nft.Batch) (nft.Applied, error)
}

// Config configures a [Hold].
type Config struct {
	Kernel   Kernel
	Tracking Tracking
	// Addresses returns the node's addresses, whose connections to its pods are the kubelet's probes.
	Addresses func() ([]netip.Prefix, error)
	// TCPTimeout returns after how long without a packet the kernel forgets a connection of TCP, or zero.
	TCPTimeout func() time.Duration
	// Overlays receives which holds are over or begin again.
	Overlays   chan<- []model.Overlay
	Background *throttle.Budget // of all background work
	Recorder   sync.Recorder    // nil means no events
	Log        *slog.Logger
}

// A Hold is a [sync.Follower] that ends holds. All but Follow is done by one goroutine, Run.
type Hold struct {
	Config
	*follow.Queue
	outages
	demand  demand
	notices *sync.Notices
	pace    throttle.Throttle
	outcome follow.Outcome            // of reads
	crowded [len(model.Families)]bool // the set of frontends is nearly full

	// Clients, whose addresses may be forged, fill a set, but do not delay reads of who waits.
	clientsPace   throttle.Throttle
	sharesPace    throttle.Throttle
	counts        map[*pool]int             // of clients
	demandClients map[model.ServiceName]int // that wait for Services that may be scaled to zero
	clientsErr    error                     // of the last count
	readErr       error                     // of the last read of who waits

	requests chan func()   // for Run's goroutine to call
	ended    chan struct{} // closed when it makes no more calls
}

// New returns a Hold; it does nothing before Run.
func New(c Config) *Hold {
	return &Hold{
		Config: c, Queue: follow.NewQueue(), demand: newDemand(c.Background),
		outages: outages{
			frontends: map[model.Match]*pool{}, pools: map[model.Match]*pool{},
			waiting: map[*pool]struct{}{}, ended: map[*pool]time.Time{},
		},
		notices: sync.NewNotices(c.Recorder, c.Log), pace: c.Background.Throttle(period),
		clientsPace: c.Background.Throttle(period), sharesPace: c.Background.Throttle(period),
		requests: make(chan func()), ended: make(chan struct{}),
	}
}

// Waiting says who waits for an endpoint.
type Waiting struct {
	Key     model.Match // of the pool
	Since   time.Time   // when the first packet came
	Clients int         // that have sent packets within [nft.WaitingTime]; at least 1, as a full set lacks some
}

// Waiting returns the pools with clients that wait, in no order, as of the last reads that were due.
func (h *Hold) Waiting(ctx context.Context) ([]Waiting, error) {
	type result struct {
		list []Waiting
		err  error
	}
	r, err := sync.CallOn(ctx, h.requests, h.ended, func() (r result) {
		h.applyCommits()
		if len(h.frontends) == 0 {
			return r
		}
		r.err = errors.Join(h.readErr, h.countClients())
		for p := range h.waiting {
			if h.counts[p] > 0 || time.Since(p.last) < nft.WaitingTime {
				r.list = append(r.list, Waiting{p.key, p.since, max(h.counts[p], 1)})
			}
		}
		return r
	})
	return r.list, errors.Join(err, r.err)
}

// Demand returns the demand for Services that may be scaled to zero, as far as this node sees it, by
// Service: clients that wait, and active connections that the node's endpoints serve. It is at least one for
// [nft.HeldTime] after the last held packet, and while connection tracking has a connection that has
// ended: short ones begin and end between two reads. Demand may be called at any time; its result must
// not be changed.
func (h *Hold) Demand() map[model.ServiceName]Demand { return h.demand.published() }

// DemandChanged returns a channel, for one receiver, that delivers when the demand may have changed.
func (h *Hold) DemandChanged() <-chan struct{} { return h.demand.changed }

// clients counts the clients of each pool without an endpoint.
func (h *Hold) clients() (counts map[*pool]int, err error) {
	if len(h.waiting) == 0 {
		return nil, nil
	}
	counts = map[*pool]int{}
	for _, f := range model.Families {
		err = errors.Join(err, h.Kernel.Clients(nft.SetID{Family: f, Kind: nft.SetWaiting}, func(c nft.Client) {
			if _, p, held := model.Find(h.frontends, h.nodeAddrs, c.Destination); held {
				counts[p]++
			}
		}))
	}
	return counts, err
}

// Run follows commits and reads what is held until ctx ends, which is not an error. While no
// Service holds or may be scaled to zero it only waits.
func (h *Hold) Run(ctx context.Context) error {
	defer close(h.ended)
	var next <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case request := <-h.requests:
			request()
		case <-h.Ready():
			h.applyCommits()
		case <-next:
			next = nil
			h.applyCommits()
			beyond, within := h.observe()
			h.report(ctx, beyond, ReasonNotHeld)
			h.report(ctx, h.overdue(time.Now()), ReasonHoldOver)
			h.send(ctx, append(within, h.resumable(time.Now())...))
		}
		switch {
		case len(h.frontends)+len(h.demand.frontends) == 0:
			next = nil
		case next == nil:
			next = time.After(h.pace.Remaining())
		}
	}
}

// observe reads who waits and, for Services that may be scaled to zero, what else is active. It returns
// the pools that are now beyond the share of their namespace, and those that are within it again.
func (h *Hold) observe() (beyond, within []*pool) {
	var errs [2]error
	if len(h.demand.frontends) > 0 {
		errs[0] = h.countClients()
		errs[1] = h.demand.readActive(&h.Config)
	}
	h.pace.Do(func() {
		if h.readErr = nil; len(h.frontends) > 0 {
			h.readErr = h.read()
		}
		h.demand.publish(time.Now(), h.demandClients)
	})
	if h.sharesPace.Remaining() <= 0 { // it may sort all pools
		h.sharesPace.Do(func() { beyond, within = h.applyShares(time.Now()) })
	}
	h.outcome.Log(h.Log, errors.Join(errs[0], errs[1], h.readErr),
		"held or active connections not readable, connections are held until they are",
		"held and active connections readable again")
	return beyond, within
}

// countClients counts the clients that wait, unless it was done shortly before. It returns the error of
// the last count.
func (h *Hold) countClients() error {
	if h.clientsPace.Remaining() > 0 {
		return h.clientsErr
	}
	h.clientsPace.Do(func() {
		var clients map[*pool]int
		if clients, h.clientsErr = h.clients(); h.clientsErr != nil {
			return // what is not known is not none
		}
		h.counts, h.demandClients = clients, map[model.ServiceName]int{}
		for p, n := range clients {
			if p.scaleToZero {
				h.demandClients[p.name()] += n
			}
		}
	})
	return h.clientsErr
}

func (h *Hold) applyCommits() {
	now := time.Now()
	for _, c := range h.Take() {
		h.outages.apply(c, now)
		h.demand.apply(c)
	}
}

// read reads which frontends have clients, if packets were held or outages began since the last time.
func (h *Hold) read() (err error) {
	fresh := sets.New[sync.Object]()
	for _, f := range model.Families {
		totals, failed := h.Kernel.Counters(f)
		total := totals[nft.CounterHeld]
		if failed == nil && total == h.held[f] {
			continue
		}
		if failed == nil {
			now, n, stale := time.Now(), 0, map[model.Match]nft.Client{}
			failed = h.Kernel.Clients(nft.SetID{Family: f, Kind: nft.SetHeld}, func(c nft.Client) {
				n++
				at := now.Add(c.Expires - nft.HeldTime)
				p, first, isStale := h.packet(c.Destination, at)
				if isStale && min(c.Expires, now.Sub(at)) >= staleTime {
					stale[c.Destination] = c
				}
				if first {
					fresh.Insert(p.service)
				}
				if p != nil && p.scaleToZero {
					h.demand.packet(p.name(), at, first && !p.resumed)
				}
			})
			if failed == nil {
				failed = h.forget(f, n, stale)
			}
		}
		if failed == nil {
			h.held[f] = total
		}
		err = errors.Join(err, failed)
	}
	h.notify(fresh, ReasonWaiting)
	return err
}

// forget removes frontends that no longer hold from a set that is nearly full, with n elements. In a full
// one the kernel records no packets to others.
func (h *Hold) forget(f model.Family, n int, stale map[model.Match]nft.Client) error {
	first, forgotten := !h.crowded[f], 0
	if h.crowded[f] = n > capacity; !h.crowded[f] {
		return nil
	}
	for list := range slices.Chunk(slices.Collect(maps.Values(stale)), forgottenAtOnce) {
		switch _, err := h.Kernel.Apply(nft.Batch{nft.Forget(nft.SetID{Family: f, Kind: nft.SetHeld}, list)}); {
		case err == nil:
			forgotten += len(list)
		case !errors.Is(err, fs.ErrNotExist): // one has expired, the others wait for the next time
			return fmt.Errorf("remove frontends that no longer hold: %w", err)
		}
	}
	if first {
		h.Log.Warn("clients wait for so many addresses that the node may not notice others",
			"family", f.String(), "frontends", n, "forgotten", forgotten)
	}
	return nil
}

// notes are the texts of events.
var notes = map[string]string{
	ReasonHoldOver: "no endpoint within kube-vmap.io/hold: connections are rejected until there is one",
	ReasonNotHeld: "connections are rejected and not held: its namespace has more than its share of the addresses " +
		"for which a node holds connections",
	ReasonWaiting: "clients wait for an endpoint",
}

// report ends the hold of pools.
func (h *Hold) report(ctx context.Context, over []*pool, reason string) {
	if len(over) == 0 {
		return
	}
	h.send(ctx, over)
	services := sets.New[sync.Object]()
	for _, p := range over {
		services.Insert(p.service)
	}
	h.Log.Info("connections no longer held", "reason", reason, "services", services.Len(),
		"service", over[0].name().String()) // the first one
	h.notify(services, reason)
}

// notify sends events about Services, within the limits of their namespaces.
func (h *Hold) notify(services sets.Set[sync.Object], reason string) {
	for o := range services {
		h.notices.Notify(o, reason, notes[reason])
	}
}

// send tells the loop whether the hold of pools is over.
func (h *Hold) send(ctx context.Context, pools []*pool) {
	changes := make([]model.Overlay, len(pools))
	for i, p := range pools {
		changes[i] = model.HoldChange{Key: p.key, UID: p.service.UID, Over: p.over}
	}
	sync.SendOverlays(ctx, h.Overlays, changes)
}
