package cluster

import (
	"context"
	"fmt"
	"log/slog"
	stdsync "sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"kube-vmap/sync"
)

// How long the first burst waits for what a node that is being set up may not have
// yet: the Node object, which kubelet makes, and after that its ranges of pods,
// which a controller gives it. kube-proxy waits as long.
const (
	nodeTimeout      = 30 * time.Second
	podRangesTimeout = 5 * time.Minute
)

// Config is what a [Source] is told.
type Config struct {
	Client kubernetes.Interface
	// NodeName is the name of the proxy's own Node.
	NodeName string
	// NeedPodRanges tells that nothing can be programmed without the Node's ranges
	// of pods.
	NeedPodRanges bool
}

// Source is a [sync.Source] that reads the Kubernetes API and follows it.
type Source struct {
	config Config
	log    *slog.Logger
}

// NewSource makes a source; nothing happens before Run.
func NewSource(c Config, log *slog.Logger) *Source {
	return &Source{config: c, log: log}
}

// String names the source.
func (s *Source) String() string { return "Kubernetes API" }

// Run implements [sync.Source]. It returns an error only if ranges of pods are
// needed and the Node does not get any; an API that cannot be reached is waited
// for. All that it started has ended when it returns.
func (s *Source) Run(ctx context.Context, out chan<- []sync.Event) error {
	ctx, cancel := context.WithCancel(ctx)
	w := s.newWatcher()
	var reflectors stdsync.WaitGroup
	for _, r := range w.reflectors(ctx) {
		reflectors.Go(func() { listAndWatch(withDebugLog(ctx, s.log), r) })
	}
	defer w.lists.closeAndWait()
	defer reflectors.Wait()
	defer cancel()

	if err := s.waitForLists(ctx, w); err != nil || ctx.Err() != nil {
		return err
	}
	s.log.Info("the API's objects are complete", "after", time.Since(w.started).Round(time.Millisecond).String())
	deliver(ctx, w.queue, out)
	return nil
}

// waitForLists waits until what is pending is complete.
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

// waitForNode waits for what must be known of the node, but not for ever.
func (s *Source) waitForNode(ctx context.Context, n *ownNode) error {
	if !waitFor(ctx, n.found, time.After(nodeTimeout)) {
		s.log.Warn("going on without the Node object", "node", s.config.NodeName, "waited", nodeTimeout.String())
	}
	if !s.config.NeedPodRanges || waitFor(ctx, n.hasPodRanges, time.After(podRangesTimeout)) {
		return nil
	}
	return fmt.Errorf("wait for node %s to have pod CIDRs: there are none after %s", s.config.NodeName, podRangesTimeout)
}

// waitFor waits for done or the end; false if patience is over before. Nil is
// endless.
func waitFor(ctx context.Context, done <-chan struct{}, patience <-chan time.Time) bool {
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
	case <-ctx.Done():
	case <-patience:
		return false
	}
	return true
}

// deliver sends what is pending, at once and whenever there is something.
func deliver(ctx context.Context, p *eventQueue, out chan<- []sync.Event) {
	for ctx.Err() == nil {
		if events := p.take(); len(events) > 0 {
			select {
			case out <- events:
			case <-ctx.Done():
			}
		}
		select {
		case <-p.ready:
		case <-ctx.Done():
		}
	}
}

var _ sync.Source = (*Source)(nil)
