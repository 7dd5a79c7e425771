package build

import (
	"context"
	"fmt"
	"time"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/sync"
)

// Config has the sources of answers.
type Config struct {
	Snapshot func(context.Context) (sync.Snapshot, error) // of the loop
	Counts   Counts
	Version  string // of the process
	NodeName string
	// Health returns that of the process; nil if it is not known.
	Health func() (*status.Health, error)
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
func New(c Config) status.Source {
	slots := make(chan struct{}, maxConcurrent)
	return func(ctx context.Context, q status.Query) (*status.Document, error) {
		if q.Health { // which must be told also if the loop waits for the kernel
			return c.withHealth(&status.Document{
				Source: status.FromDaemon, Time: time.Now(), Node: c.NodeName, Version: c.Version, Services: []status.Service{},
			}), nil
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for other requests: %w", ctx.Err())
		}
		snapshot, err := c.Snapshot(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the state: %w", err)
		}
		doc := FromSnapshot(&snapshot, q, time.Now())
		doc.Version = c.Version
		c.Counts.AddTo(doc)
		return c.withHealth(doc), nil
	}
}

// withHealth adds the health of the process to a document.
func (c *Config) withHealth(doc *status.Document) *status.Document {
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
func unread(doc *status.Document, text string) status.Problem {
	return status.Problem{Object: "Node " + doc.Node, Reason: status.ReasonUnread, Text: text}
}

// AddTo adds connections to a document. A read error becomes one of its problems.
func (c Counts) AddTo(doc *status.Document) {
	total := read(doc, "counted connections", c.Total)
	active := read(doc, "tracked connections", c.Active)
	doc.Counted, doc.CountedAt = !total.At.IsZero(), total.At
	if !doc.Counted {
		doc.CountedAt = active.At
	}
	Count(doc, total.Connections, active.Connections)
}

// read returns a sample, or an empty one.
func read(doc *status.Document, what string, from func() (Sample, error)) Sample {
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
