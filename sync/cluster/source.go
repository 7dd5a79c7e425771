package cluster

import (
	"context"
	"fmt"
	"log/slog"
	stdsync "sync"
	"sync/atomic"
	"time"

	"kube-vmap/sync"
)

// How long the first burst waits for what a new node may not have yet: its Node object, which
// kubelet creates, and then its pod CIDRs, which a controller assigns. kube-proxy waits as long.
const (
	nodeTimeout      = 30 * time.Second
	podRangesTimeout = 5 * time.Minute
)

// Config configures a [Source].
type Config struct {
	Client *Client
	// NodeName is the name of the proxy's own Node.
	NodeName string
	// NeedPodRanges is set if nothing can be programmed without the Node's pod CIDRs.
	NeedPodRanges bool
}

// A Source is a [sync.Source] that lists and watches the Kubernetes API.
type Source struct {
	config Config
	log    *slog.Logger
	// running is what the source consists of while it runs; nil before that.
	running atomic.Pointer[watcher]
}

// NewSource returns a source; it does nothing before Run.
func NewSource(c Config, log *slog.Logger) *Source {
	return &Source{config: c, log: log}
}

// String returns the source's name.
func (s *Source) String() string { return "Kubernetes API" }

// Run implements [sync.Source]. It returns an error only if pod CIDRs are needed and
// the Node does not get any; it waits for an API server that is unavailable. All its
// goroutines have ended when it returns.
func (s *Source) Run(ctx context.Context, out chan<- []sync.Event) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.newWatcher(ctx)
	if err != nil {
		return err
	}
	s.running.Store(w)
	var reflectors stdsync.WaitGroup
	for _, r := range w.reflectors {
		reflectors.Go(func() { listAndWatch(withDebugLog(ctx, s.log), r) })
	}
	defer w.lists.closeAndWait()
	defer reflectors.Wait()
	defer cancel()

	if err := s.waitForLists(ctx, w); err != nil || ctx.Err() != nil {
		return err
	}
	s.log.Info("API objects loaded", "duration", time.Since(w.started).Round(time.Millisecond).String())
	deliver(ctx, w.queue, out)
	return nil
}

// waitForLists waits until the queue holds everything that the first burst needs.
func (s *Source) waitForLists(ctx context.Context, w *watcher) error {
	waitFor(ctx, w.nodes.listed, nil)
	if err := s.waitForNode(ctx, w.node); err != nil {
		return err
	}
	for _, each := range w.stores() {
		waitFor(ctx, each.listed, nil)
	}
	return nil
}

// waitForNode waits, for a limited time, for the Node and the pod CIDRs if needed.
func (s *Source) waitForNode(ctx context.Context, n *ownNode) error {
	if !waitFor(ctx, n.found, time.After(nodeTimeout)) {
		s.log.Warn("no Node object, continuing without it", "node", s.config.NodeName, "duration", nodeTimeout.String())
	}
	if !s.config.NeedPodRanges || waitFor(ctx, n.hasPodRanges, time.After(podRangesTimeout)) {
		return nil
	}
	return fmt.Errorf("wait for pod CIDRs of node %s: none after %s", s.config.NodeName, podRangesTimeout)
}

// waitFor waits for done or the end of ctx, and reports false if timeout comes first.
// A nil channel never delivers.
func waitFor(ctx context.Context, done <-chan struct{}, timeout <-chan time.Time) bool {
	if isClosed(done) {
		return true
	}
	select {
	case <-done:
	case <-ctx.Done():
	case <-timeout:
		return false
	}
	return true
}

// deliver sends the queue's events as soon as there are any, until ctx ends.
func deliver(ctx context.Context, q *eventQueue, out chan<- []sync.Event) {
	for ctx.Err() == nil {
		if events := q.take(); len(events) > 0 {
			sync.Send(ctx, out, events)
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
		}
	}
}

var _ sync.Source = (*Source)(nil)

// A Position is how far a [Source] has followed the objects of one kind.
type Position struct {
	Kind string
	// ResourceVersion is the newest one that the API server has sent, with an object, a list
	// or a bookmark; empty before the first list.
	ResourceVersion string
	// FailingSince is when requests began to fail with Err; zero if they do not.
	FailingSince time.Time
	Err          error
}

// Positions returns the position of each kind; nil before Run. Reflectors keep the resource
// versions anyway, so that this costs nothing for each change.
func (s *Source) Positions() []Position {
	w := s.running.Load()
	if w == nil {
		return nil
	}
	out := make([]Position, len(w.reflectors))
	for i, r := range w.reflectors {
		out[i] = Position{Kind: r.Name(), ResourceVersion: r.LastSyncResourceVersion()}
		out[i].FailingSince, out[i].Err = w.outages.failure(r.Name())
	}
	return out
}
