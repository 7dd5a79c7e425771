// Package cluster reads Services, EndpointSlices, ServiceCIDRs and the proxy's own Node
// from the Kubernetes API, and writes events to it.
//
//	API server --list, watch--> codec --> reflector --> store --events--> eventQueue --bursts--> loop
//	                    (decode, convert) (client-go)   (one for each kind)
//
// Reflectors of client-go do the listing and watching: lists that are streamed where
// the server supports it, else read in pages, and recovery when the server is
// unavailable, restarts or has compacted its history.
//
// What differs from informers, to take less memory and CPU: Services and EndpointSlices are decoded
// by package protobuf, which skips what the proxy does not read, and are converted one by one while
// a list arrives, each in the memory of the one before (codec.go). A store keeps only each object's
// name, to see after a list which objects were deleted; which updates change something is seen by
// the model, which has them. An informer would keep every API object, and its delta queue and event
// handlers would hold further copies.
//
// Events wait in one queue until the loop takes them, at most one for each object, so
// the queue is bounded by the size of the cluster. A single event is not delayed. The
// first burst is sent when the lists of all kinds are complete and the node is known.
//
// # When the API server is unavailable
//
// All requests end in resourceclient.go, which also handles resources that may be missing; observe.go
// decides which of them work; outages.go logs failures, but not each.
//
// The last known objects stay. A watch that ended without an error is resumed immediately. After an
// error, each kind is requested again after a random 0.8 to 20 seconds. The delays of client-go's
// informers grow to 60 seconds, and double when the server has lost its watch history: a node might
// have stale endpoints for two minutes after an outage. Longer delays would hardly spare the
// server, since most of its cost is in the data it sends; the delays must only be spread.
//
// Client-go logs each failed request. Here its lines have the debug level.
//
// A dead connection is noticed by client-go's HTTP/2 health check: a ping after 30 idle seconds,
// with 15 seconds for the reply (HTTP2_READ_IDLE_TIMEOUT_SECONDS and HTTP2_PING_TIMEOUT_SECONDS
// change that). Without HTTP/2, TCP keep-alives every 30 seconds notice it in about five minutes.
// Neither notices a part of a response that a proxy or middlebox loses: observe.go does, by the age of
// the last thing that the API server sent about a kind.
//
// # When the Node object is deleted
//
// The machine and its address, zone and pods still exist, so the last known values
// stay, and the rules do not change while a Node is deleted and registered again. Only
// the health check for load balancers fails, as intended by the deletion.
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

// How long the first burst waits for parts that a new node may not have yet: its Node object,
// which kubelet creates, and then its pod CIDRs, which a controller assigns. kube-proxy waits as
// long.
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
	// running are the parts of the source while it runs; nil before that.
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
	for _, each := range []*store{w.services, w.slices, w.cidrs} {
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
	// FailingSince is when requests began to fail with Err, or zero.
	FailingSince time.Time
	Err          error
	Heard        time.Time // when the API server last sent something; at first when the source started
}

// Age returns how long ago the API server sent something, of the kind where it is longest; at first zero.
func (s *Source) Age() (age time.Duration) {
	for _, p := range s.Positions() {
		age = max(age, time.Since(p.Heard))
	}
	return age
}

// Positions returns the position of each kind; nil before Run. Reflectors keep the resource
// versions anyway, so changes cost nothing extra.
func (s *Source) Positions() []Position {
	w := s.running.Load()
	if w == nil {
		return nil
	}
	out := make([]Position, len(w.reflectors))
	for i, r := range w.reflectors {
		out[i] = Position{Kind: r.Name(), ResourceVersion: r.LastSyncResourceVersion()}
		k, unlock := w.outages.lock(r.Name())
		out[i].FailingSince, out[i].Err, out[i].Heard = k.since, k.err, k.heard
		unlock()
	}
	return out
}
