package top

import (
	"context"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// Source answers what a node programs; status.Get with a socket is one.
type Source func(ctx context.Context, q status.Query) (*status.Document, error)

// poll is a [Source] that knows how long to wait for it.
type poll func(q status.Query) (*status.Document, error)

// patience is the least time that a source has for its answer: much more than the
// largest document takes.
const patience = 15 * time.Second

func newPoll(ctx context.Context, s Source, interval time.Duration) poll {
	return func(q status.Query) (*status.Document, error) {
		ctx, stop := context.WithTimeout(ctx, max(patience, interval))
		defer stop()
		return s(ctx, q)
	}
}

// rest is how long to wait after an answer that took some time. The interval begins
// with the answer, so that of a second there is always something new.
func rest(interval, took time.Duration) time.Duration { return max(interval, took) }

// manyServices is from how many Services on their endpoints are not asked for, only how
// many there are: documents stay small.
const manyServices = 500

// overviewQuery asks for all that the overview needs, as seen from its last sheet,
// if there is one.
func overviewQuery(namespace string, last *sheet) status.Query {
	return status.Query{Namespace: namespace, Brief: last == nil || len(last.rows) > manyServices}
}
