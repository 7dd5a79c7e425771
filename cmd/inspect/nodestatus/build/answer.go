package build

import (
	"context"
	"fmt"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/sync"
)

// Config has the sources of answers.
type Config struct {
	Snapshot func(context.Context) (sync.Snapshot, error) // of the loop
	Counts   Counts
	Version  string // of the process
	NodeName string
	// Health returns that of the process; nil if it is not known.
	Health func() (*nodestatus.Health, error)
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
	slots := make(chan struct{}, maxConcurrent)
	observations := make(chan struct{}, maxConcurrent)
	return func(ctx context.Context, q nodestatus.Query) (*nodestatus.Document, error) {
		if q.Health { // without the loop, which may wait for the kernel
			return c.withHealth(&nodestatus.Document{
				Schema: nodestatus.Schema, Source: nodestatus.FromDaemon, Time: time.Now(), Node: c.NodeName, Version: c.Version,
				Services: []nodestatus.Service{},
			}), nil
		}
		responses, observeErr := c.observe(ctx, q, observations)
		if err := acquire(ctx, slots); err != nil {
			return nil, err
		}
		defer func() { <-slots }()
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
			AddResponses(doc, min(q.Observe, MaxObserved), responses)
		}
		return c.withHealth(doc), nil
	}
}

// acquire waits for a slot.
func acquire(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other requests: %w", ctx.Err())
	}
}

// observe observes for as long as the query asks. It takes no slot of the answers, which
// need memory.
func (c Config) observe(ctx context.Context, q nodestatus.Query, slots chan struct{}) ([]Response, error) {
	if q.Observe <= 0 || c.Observe == nil {
		return nil, nil
	}
	if err := acquire(ctx, slots); err != nil {
		return nil, err
	}
	defer func() { <-slots }()
	return c.Observe(ctx, q.Observe)
}

// withHealth adds the health of the process to a document.
func (c *Config) withHealth(doc *nodestatus.Document) *nodestatus.Document {
	if c.Health == nil {
		return doc
	}
	h, err := c.Health()
	if err != nil {
		doc.Problems = append(doc.Problems, unread(doc, err.Error()))
	}
	doc.Health, doc.Ready = h, !h.Sync.Last.IsZero()
	return doc
}

// unread returns the problem that something could not be read from the kernel.
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

// read returns a sample, or an empty one.
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
