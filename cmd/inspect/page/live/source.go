// Package live adds up the connections and problems of a whole cluster, or of one node, while
// the page is open.
//
//	Watch --> Cluster --Source--> every node: tally (connections of each Service, states)
//	             |                            findings (what is not plainly balanced), rarely
//	             |                one node:   list of all Services, every 20 seconds
//	             v
//	          Overview: nodes, Services with the sums, merged problems
//	          Rows:     a Service on each node
//	          Service:  one Service, from which nodes its connections come and where they go
//
// What it costs is bounded (pace.go): a node is asked at most every 5 seconds, and less
// often in large clusters, if its answers take long, or if they are large. No node is asked
// any more 30 seconds after the last [Cluster.Watch]. A node that does not answer costs its
// own time-out; it is asked less and less often, and the sums are those of the others.
package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
)

// Source asks nodes.
type Source interface {
	Nodes(ctx context.Context) ([]nodes.Node, error)
	Reader
}

// A Reader reads what a node says of itself.
type Reader interface {
	Tally(ctx context.Context, n nodes.Node) (*nodestatus.Tally, error)
	// Findings returns nil where nothing is known beyond the tally.
	Findings(ctx context.Context, n nodes.Node) ([]findings.Finding, error)
	Document(ctx context.Context, n nodes.Node, q nodestatus.Query) (*nodestatus.Document, error)
}

// OneNode is the source of a single node, in whose process it is.
type OneNode struct {
	name string
	read nodestatus.Source
	turn chan struct{} // has an item during a read and the pause after it
}

// NewOneNode returns the source of a node, whose status read returns.
func NewOneNode(name string, read nodestatus.Source) *OneNode {
	return &OneNode{name, read, make(chan struct{}, 1)}
}

const (
	// pauseFactor times the duration of a read is how long no other one starts: all viewers
	// together take about a tenth of a processor.
	pauseFactor = 10
	// maxStateRead is the most time that reading the state takes. More is waiting for the
	// kernel, which costs nothing.
	maxStateRead = 500 * time.Millisecond
)

// Nodes implements [Source].
func (o *OneNode) Nodes(context.Context) ([]nodes.Node, error) {
	return []nodes.Node{{Name: o.name}}, nil
}

// Tally implements [Reader].
func (o *OneNode) Tally(ctx context.Context, n nodes.Node) (*nodestatus.Tally, error) {
	doc, err := o.Document(ctx, n, nodestatus.Query{Brief: true})
	if err != nil {
		return nil, err
	}
	return doc.Tally(), nil
}

// Findings implements [Reader]: for them, all endpoints would have to be read.
func (o *OneNode) Findings(context.Context, nodes.Node) ([]findings.Finding, error) {
	return nil, nil
}

// Document implements [Reader].
func (o *OneNode) Document(
	ctx context.Context, _ nodes.Node, q nodestatus.Query,
) (doc *nodestatus.Document, err error) {
	turn := o.Paced(ctx, func() (waited time.Duration) {
		start := time.Now()
		if doc, err = o.read(ctx, q); err != nil {
			return max(0, time.Since(start)-maxStateRead)
		}
		return max(0, doc.Time.Sub(start)-maxStateRead)
	})
	return doc, errors.Join(turn, err)
}

// Paced runs what reads the node, one at a time, with a pause after it. read returns how much
// of its time it only waited.
func (o *OneNode) Paced(ctx context.Context, read func() (waited time.Duration)) error {
	select {
	case o.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for other reads of the node: %w", ctx.Err())
	}
	start := time.Now()
	waited := read()
	time.AfterFunc(pauseFactor*(time.Since(start)-waited), func() { <-o.turn })
	return nil
}
