package status

import (
	"context"
	"fmt"
	"time"

	"kube-vmap/nft"
	"kube-vmap/sync"
)

// Answer answers a query about what the node programs.
type Answer func(ctx context.Context, q Query) (*Document, error)

// Config is where answers come from.
type Config struct {
	// Look asks the loop.
	Look func(context.Context) (sync.Snapshot, error)
	// Counts are asked for each answer.
	Counts Counts
	// Version is that of the process.
	Version string
}

// Counts are where the numbers of connections come from. Either may be nil.
type Counts struct {
	// Counted are connections so far; nil means that nobody counts. See [Counted].
	Counted func() (Reading, error)
	// Active are those that the kernel tracks now; see [Active].
	Active func() (Reading, error)
}

// atOnce is how many answers are made at a time. Of a big cluster one takes tens of
// megabytes.
const atOnce = 2

// New makes the function that answers for the running process.
func New(c Config) Answer {
	places := make(chan struct{}, atOnce)
	return func(ctx context.Context, q Query) (*Document, error) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for others who ask: %w", ctx.Err())
		}
		view, err := c.Look(ctx)
		if err != nil {
			return nil, fmt.Errorf("look at the state: %w", err)
		}
		doc := FromView(&view, q, time.Now())
		doc.Version = c.Version
		c.Counts.To(doc)
		return doc, nil
	}
}

// To counts connections in a document. What cannot be read is one of its problems.
func (c Counts) To(doc *Document) {
	so := read(doc, "counted connections", c.Counted)
	active := read(doc, "tracked connections", c.Active)
	switch {
	case so != nil:
		doc.Counted, doc.CountedAt = true, so.At
	case active != nil:
		doc.CountedAt = active.At
	}
	doc.Count(so.connections(), active.connections())
}

// read reads numbers; nil if there are none.
func read(doc *Document, what string, from func() (Reading, error)) *Reading {
	if from == nil {
		return nil
	}
	r, err := from()
	if err != nil {
		doc.Problems = append(doc.Problems, Problem{"Node " + doc.Node, ReasonUnread, what + ": " + err.Error()})
		return nil
	}
	return &r
}

// connections are those of a reading, if there is one.
func (r *Reading) connections() []nft.ConnectionCount {
	if r == nil {
		return nil
	}
	return r.Connections
}
