package nodes

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Ask calls do for every node with a running kube-vmap, for a limited number at a time, and
// done for every node as its answer comes, one at a time. done gets the answer and the error
// of do, or a [*MissingError]. A canceled context ends it early: done gets that error for the
// rest.
func Ask[T any](
	ctx context.Context, c *Cluster, list []Node, do func(context.Context, Node) (T, error), done func(Node, T, error),
) {
	var mu sync.Mutex
	finish := func(n Node, answer T, err error) {
		mu.Lock()
		defer mu.Unlock()
		done(n, answer, err)
	}
	var group errgroup.Group
	group.SetLimit(c.config.Concurrency)
	for _, n := range list {
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
