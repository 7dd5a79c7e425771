// Package live adds up the connections and problems of a whole cluster while the page is open.
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
// later than 30 seconds after the last [Cluster.Watch]. A node that does not answer costs its
// own time-out; it is asked less and less often, and the sums are of the others.
package live

import (
	"context"

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
