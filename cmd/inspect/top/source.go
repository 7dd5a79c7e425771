package top

import (
	"context"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// Source returns the status document for a query; [client.Get] with a socket is one.
type Source func(ctx context.Context, q status.Query) (*status.Document, error)

// poll is a [Source] with a timeout.
type poll func(q status.Query) (*status.Document, error)

// queryTimeout is the minimum timeout of a query, much more than the largest document takes.
const queryTimeout = 15 * time.Second

func newPoll(ctx context.Context, s Source, interval time.Duration) poll {
	return func(q status.Query) (*status.Document, error) {
		ctx, stop := context.WithTimeout(ctx, max(queryTimeout, interval))
		defer stop()
		return s(ctx, q)
	}
}

// nextDelay returns the delay before the next query. It begins with the answer, so that an
// interval of a second always has new counters.
func nextDelay(interval, took time.Duration) time.Duration { return max(interval, took) }

// manyServices is the number of Services above which endpoints are only counted, to keep
// documents small.
const manyServices = 500

// overviewQuery returns the query for the overview after its last sheet, which may be nil.
func overviewQuery(namespace string, last *sheet) status.Query {
	return status.Query{Namespace: namespace, Brief: last == nil || len(last.rows) > manyServices}
}
