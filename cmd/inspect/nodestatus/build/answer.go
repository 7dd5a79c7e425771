// Package build builds the [nodestatus.Document] of a node.
//
//	loop snapshot --FromSnapshot--+
//	kernel tables --FromTables----+--> Document
//	counters, conntrack --Count---+
//
// [New] is the source of the running process, which answers on its status socket.
package build

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	stdsync "sync"
	"time"

	"golang.org/x/sync/semaphore"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/hold"
	"kube-vmap/sync/follow/passivehealth"
	"kube-vmap/sync/throttle"
)

// Config has the sources of answers.
type Config struct {
	Snapshot func(context.Context) (sync.Snapshot, error) // of the loop
	Counts   Counts
	Version  string // of the process
	NodeName string
	// Health returns the health of the process; nil if it is not known.
	Health func(context.Context) (*nodestatus.Health, error)
	// Unresponsive returns what passive health checks found; nil if there are none.
	Unresponsive func(context.Context) (passivehealth.Report, error)
	// Waiting returns who waits for an endpoint; nil if connections are never held.
	Waiting func(context.Context) ([]hold.Waiting, error)
	// Observe observes how endpoints respond; see [ObserveNode].
	Observe func(context.Context, time.Duration) ([]Response, error)
}

// Counts are the sources of numbers of connections. Either may be nil.
type Counts struct {
	Total  func() (Sample, error) // see [TotalCounts]; nil if connections are not counted
	Active func() (Sample, error) // see [ActiveCounts]
}

// maxConcurrent is how many answers are built at a time. In a big cluster each takes tens
// of megabytes.
const maxConcurrent = 2

// New returns the function that answers for the running process.
func New(c Config) nodestatus.Source {
	slots, observations := semaphore.NewWeighted(maxConcurrent), semaphore.NewWeighted(maxConcurrent)
	return func(ctx context.Context, q nodestatus.Query) (*nodestatus.Document, error) {
		if q.Health { // without the loop, which may wait for the kernel
			return c.withHealth(ctx, &nodestatus.Document{
				Schema: nodestatus.Schema, Source: nodestatus.FromDaemon, Time: time.Now(), Node: c.NodeName, Version: c.Version,
				Services: []nodestatus.Service{},
			}), nil
		}
		var responses []Response
		var observeErr error
		if c.Observe != nil && q.Observe > 0 { // which takes no slot of the answers, that need memory
			if observeErr = observations.Acquire(ctx, 1); observeErr == nil {
				responses, observeErr = c.Observe(ctx, q.Observe)
				observations.Release(1)
			}
		}
		if err := slots.Acquire(ctx, 1); err != nil {
			return nil, fmt.Errorf("wait for other requests: %w", err)
		}
		defer slots.Release(1)
		snapshot, err := c.Snapshot(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the state: %w", err)
		}
		doc := FromSnapshot(&snapshot, q, time.Now())
		doc.Version = c.Version
		c.Counts.AddTo(doc)
		switch {
		case observeErr != nil:
			doc.Problems = append(doc.Problems, unread(doc, "responses of endpoints: "+observeErr.Error()))
		case c.Observe != nil && q.Observe > 0:
			AddResponses(doc, min(q.Observe, nodestatus.MaxObserved), responses)
		}
		return c.withHealth(ctx, doc), nil
	}
}

// maxWait is how long to wait for followers, which may wait for the kernel.
const maxWait = time.Second / 2

func (c *Config) withHealth(ctx context.Context, doc *nodestatus.Document) *nodestatus.Document {
	if c.Health == nil {
		return doc
	}
	h, err := c.Health(ctx)
	if err != nil {
		doc.Problems = append(doc.Problems, unread(doc, err.Error()))
	}
	doc.Health, doc.Ready = h, !h.Sync.Last.IsZero()
	if h.Takeover.State == nodestatus.TakeoverReturned { // the followers have ended
		return doc
	}
	if c.Waiting != nil {
		soon, cancel := context.WithTimeout(ctx, maxWait)
		list, err := c.Waiting(soon)
		cancel()
		if err != nil {
			doc.Problems = append(doc.Problems, unread(doc, "clients that wait for endpoints: "+err.Error()))
		}
		addWaiting(doc, list)
	}
	if c.Unresponsive != nil {
		ctx, cancel := context.WithTimeout(ctx, maxWait)
		defer cancel()
		if r, err := c.Unresponsive(ctx); err == nil {
			AddUnresponsive(doc, &r)
		}
	}
	return doc
}

func unread(doc *nodestatus.Document, text string) nodestatus.Problem {
	return nodestatus.Problem{Object: "Node " + doc.Node, Reason: nodestatus.ReasonUnread, Text: text}
}

// AddTo adds connections to a document. A read error becomes one of its problems.
func (c Counts) AddTo(doc *nodestatus.Document) {
	total := read(doc, "counted connections", c.Total)
	active := read(doc, "tracked connections", c.Active)
	doc.Counted, doc.CountedAt = !total.At.IsZero(), total.At
	if !doc.Counted {
		doc.CountedAt = active.At
	}
	Count(doc, total, active)
}

func read(doc *nodestatus.Document, what string, from func() (Sample, error)) Sample {
	if from == nil {
		return Sample{}
	}
	r, err := from()
	if err != nil {
		doc.Problems = append(doc.Problems, unread(doc, what+": "+err.Error()))
		return Sample{}
	}
	return r
}

// Tracking lists the entries of the kernel's connection tracking.
type Tracking interface {
	// Each calls begin, which discards earlier entries, and then fn for every entry. A
	// dump that is interrupted begins again.
	Each(begin func(), fn func(conntrack.Entry)) error
}

// Counter reads the counters of the kernel's rules.
type Counter interface {
	// Connections returns the totals of a family.
	Connections(model.Family) ([]nft.ConnectionCount, error)
	// Uncounted returns the original destinations that are not counted now.
	Uncounted(model.Family) ([]model.Match, error)
	// Refusals returns the refusals of endpoints of Services that retry.
	Refusals(model.Family) ([]nft.RefusalCount, error)
}

// Sample is what the kernel counted at one moment.
type Sample struct {
	Connections []nft.ConnectionCount
	// Offloaded are the Connections that take a flowtable.
	Offloaded []nft.ConnectionCount
	// Uncounted are the destinations that are not counted now. In the families of Full new
	// pairs of destination and endpoint are not.
	Uncounted []model.Match
	Refusals  []nft.RefusalCount
	Full      [len(model.Families)]bool
	// At is when the read began: everything before is included.
	At time.Time
}

// ActiveCounts returns a function that counts the connections in connection tracking, by
// requested address and endpoint. Connections that are not translated have no endpoint
// and are not counted. The tracking must not be used otherwise.
func ActiveCounts(t Tracking) func() (Sample, error) {
	return cached(func() (Sample, error) { return countActive(t) })
}

// TotalCounts returns a function that reads the totals of both families. The counter must
// not be used otherwise.
func TotalCounts(c Counter) func() (Sample, error) {
	return cached(func() (all Sample, err error) {
		for _, f := range model.Families {
			list, err := c.Connections(f)
			uncounted, uncountedErr := c.Uncounted(f)
			refusals, refusalsErr := c.Refusals(f)
			if err := cmp.Or(err, uncountedErr, refusalsErr); err != nil {
				return Sample{}, err
			}
			all.Refusals = append(all.Refusals, refusals...)
			all.Connections = append(all.Connections, list...)
			all.Uncounted = append(all.Uncounted, uncounted...)
			all.Full[f] = nft.IsFull(len(list))
		}
		return all, nil
	})
}

const (
	// minCacheTime is how long a sample is reused at least. To list all tracked
	// connections takes the kernel some 30 ms.
	minCacheTime = time.Second
	// cacheFactor times the duration of a read is how long it is reused, if that is
	// longer, so constant requests take no more than a tenth of a processor.
	cacheFactor = 9
)

// cached returns a function that reads at most that often, one read at a time, and
// returns the last sample meanwhile. Callers share it.
func cached(read func() (Sample, error)) func() (Sample, error) {
	var mu stdsync.Mutex // guards what follows, also during a read
	pace := throttle.Throttle{Factor: cacheFactor, Min: minCacheTime}
	var last Sample
	var err error
	return func() (Sample, error) {
		mu.Lock()
		defer mu.Unlock()
		if pace.Remaining() == 0 {
			start := time.Now()
			pace.Do(func() { last, err = read() })
			last.At = start
		}
		return last, err
	}
}

func countActive(t Tracking) (out Sample, err error) {
	type flow struct {
		protocol            model.Protocol
		requested, endpoint netip.AddrPort
	}
	type count struct{ active, offloaded uint64 }
	flows := map[flow]count{}
	err = t.Each(func() { clear(flows) }, func(e conntrack.Entry) {
		if e.Reply == e.Original {
			return
		}
		key := flow{e.Protocol, e.Original, e.Reply}
		n := flows[key]
		if n.active++; e.Offloaded {
			n.offloaded++
		}
		flows[key] = n
	})
	if err != nil {
		return Sample{}, err
	}
	out.Connections = make([]nft.ConnectionCount, 0, len(flows))
	for f, n := range flows {
		c := nft.ConnectionCount{Endpoint: f.endpoint, Connections: n.active, Destination: model.Match{
			Family: model.FamilyOf(f.requested.Addr()), Addr: f.requested.Addr(), Protocol: f.protocol, Port: f.requested.Port(),
		}}
		out.Connections = append(out.Connections, c)
		if c.Connections = n.offloaded; n.offloaded > 0 {
			out.Offloaded = append(out.Offloaded, c)
		}
	}
	return out, nil
}
