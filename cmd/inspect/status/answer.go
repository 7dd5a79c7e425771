package status

import (
	"context"
	"fmt"
	"time"

	"kube-vmap/sync"
)

// Answer returns the document for a query.
type Answer func(ctx context.Context, q Query) (*Document, error)

// Config has the sources of answers.
type Config struct {
	Snapshot func(context.Context) (sync.Snapshot, error) // of the loop
	Counts   Counts
	Version  string // of the process
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
func New(c Config) Answer {
	slots := make(chan struct{}, maxConcurrent)
	return func(ctx context.Context, q Query) (*Document, error) {
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
		return doc, nil
	}
}

// AddTo adds connections to a document. A read error becomes one of its problems.
func (c Counts) AddTo(doc *Document) {
	total := read(doc, "counted connections", c.Total)
	active := read(doc, "tracked connections", c.Active)
	doc.Counted, doc.CountedAt = !total.At.IsZero(), total.At
	if !doc.Counted {
		doc.CountedAt = active.At
	}
	doc.Count(total.Connections, active.Connections)
}

// read returns a sample, or an empty one.
func read(doc *Document, what string, from func() (Sample, error)) Sample {
	if from == nil {
		return Sample{}
	}
	r, err := from()
	if err != nil {
		doc.Problems = append(doc.Problems, Problem{"Node " + doc.Node, ReasonUnread, what + ": " + err.Error()})
		return Sample{}
	}
	return r
}
