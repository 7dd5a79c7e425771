// Package nodes has what a command reads: this node by its status socket, or the nodes of a cluster
// by exec through the API server. A command is written once, for both.
//
//	nodestatus/client, this node   --+
//	                                 +--> Nodes --Find--> List --Each, Answers--> the command
//	cmd/kubectl-vmap/cluster, many --+           Document            bounded
package nodes

import (
	"context"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"kube-vmap/cmd/inspect/nodestatus"
)

// Node is a node with its pod of kube-vmap. This node has no name and no pod: its document has the
// name.
type Node struct {
	Name           string
	Pod, Namespace string
	// Missing reports whether no container of kube-vmap runs there. Why is the reason, or
	// that the pod is not ready.
	Missing bool
	Why     string
	// Absent reports whether the node has no pod of kube-vmap, as before it is moved: no
	// problem, unless it was chosen by its name.
	Absent bool
}

// A List has the nodes that a command reads.
type List struct {
	Nodes []Node
	// Chosen reports whether the user has chosen them. Otherwise they are all there are.
	Chosen bool
	// Limit is how many nodes are read at a time.
	Limit int
}

// Nodes are those that a command may read.
type Nodes interface {
	Flags
	// Find returns those that the flags choose.
	Find(ctx context.Context) (List, error)
	// Document returns the status of a node.
	Document(ctx context.Context, n Node, q nodestatus.Query) (*nodestatus.Document, error)
}

// Flags are those with which a command chooses nodes and the namespace of Services.
type Flags interface {
	AddFlags(cmd *cobra.Command)
	// Namespace returns the namespace that the user gave, if any, and the one that counts without it.
	Namespace() (given, current string, err error)
}

// Each calls do for every node with a running kube-vmap, for a limited number at a time, and
// done for every node as its answer comes, one at a time. done gets the answer and the error
// of do, or a [*MissingError]. A canceled context ends it early: done gets that error for the
// rest.
func Each[T any](
	ctx context.Context, list List, do func(context.Context, Node) (T, error), done func(Node, T, error),
) {
	var mu sync.Mutex
	finish := func(n Node, answer T, err error) {
		mu.Lock()
		defer mu.Unlock()
		done(n, answer, err)
	}
	var group errgroup.Group
	group.SetLimit(list.Limit)
	for _, n := range list.Nodes {
		var none T
		switch {
		case ctx.Err() != nil:
			finish(n, none, ctx.Err())
			continue
		case n.Missing:
			finish(n, none, &MissingError{n.Why})
			continue
		}
		group.Go(func() error {
			answer, err := do(ctx, n)
			finish(n, answer, err)
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
}

// Answers is [Each] for answers without errors, which are failures, for [Failures.Err]. An error of
// answered ends it.
func Answers[T any](
	ctx context.Context, list List, do func(context.Context, Node) (T, error), answered func(Node, T) error,
) (f Failures, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	Each(ctx, list, do, func(n Node, answer T, failure error) {
		if err != nil {
			return
		}
		if f.Add(n, failure); failure == nil {
			if err = answered(n, answer); err != nil {
				stop()
			}
		}
	})
	return f, err
}

// ReadyFirst sorts nodes whose pods are ready before the others.
func ReadyFirst(list []Node) {
	slices.SortStableFunc(list, func(a, b Node) int { return min(len(a.Why), 1) - min(len(b.Why), 1) })
}
