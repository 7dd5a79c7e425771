package top

import (
	"context"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// An Answer is the state of nodes at one moment.
type Answer struct {
	// Documents are those of the nodes, or one from the kernel's tables.
	Documents []*status.Document
	// Failed has a line for each node that did not answer.
	Failed []string
}

// Source returns the answer to a query. Its documents must not change later.
type Source func(ctx context.Context, q status.Query) (Answer, error)

// OneNode returns a source of one node's documents.
func OneNode(get func(ctx context.Context, q status.Query) (*status.Document, error)) Source {
	return func(ctx context.Context, q status.Query) (Answer, error) {
		d, err := get(ctx, q)
		if err != nil {
			return Answer{}, err
		}
		return Answer{Documents: []*status.Document{d}}, nil
	}
}

// Poll is a [Source] with a timeout.
type Poll func(q status.Query) (Answer, error)

// queryTimeout is the minimum timeout of a query, much more than the largest document takes.
const queryTimeout = 15 * time.Second

// NewPoll returns a poll whose timeout is the interval, or 15 seconds if that is longer.
func NewPoll(ctx context.Context, s Source, interval time.Duration) Poll {
	return func(q status.Query) (Answer, error) {
		ctx, stop := context.WithTimeout(ctx, max(queryTimeout, interval))
		defer stop()
		return s(ctx, q)
	}
}

// NextDelay returns the delay before the next query, after one that took some time. It begins
// with the answer, so that an interval of a second always has new counters.
func NextDelay(interval, took time.Duration) time.Duration { return max(interval, took) }
