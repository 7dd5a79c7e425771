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
		doc.Problems = append(doc.Problems, status.Problem{Object: "Node " + doc.Node, Reason: status.ReasonUnread, Text: what + ": " + err.Error()})
		return Sample{}
	}
	return r
}
