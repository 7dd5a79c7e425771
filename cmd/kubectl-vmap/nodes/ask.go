package nodes

import (
	"context"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"
)

// clearLine moves to the beginning of the line and deletes it (ECMA-48: EL).
const clearLine = "\r\x1b[K"

// Ask calls do for every node with a running kube-vmap, for a limited number at a time, and
// done for every node as its answer comes, one at a time. done gets the answer and the error
// of do, or a [*MissingError]. A canceled context ends it early: done gets that error for the
// rest. Meanwhile, a terminal shows how many have answered.
func Ask[T any](
	ctx context.Context, c *Cluster, list []Node, do func(context.Context, Node) (T, error), done func(Node, T, error),
) {
	progress := func(text string) {
		if c.config.Progress != nil && len(list) > 1 {
			_, _ = io.WriteString(c.config.Progress, clearLine+text)
		}
	}
	progress(fmt.Sprintf("0 of %d nodes", len(list)))
	defer progress("")
	var mu sync.Mutex
	answered := 0
	finish := func(n Node, answer T, err error) {
		mu.Lock()
		defer mu.Unlock()
		progress("")
		done(n, answer, err)
		answered++
		progress(fmt.Sprintf("%d of %d nodes", answered, len(list)))
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
