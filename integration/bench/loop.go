package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
)

// loopBench is the proxy's loop with all objects of a cluster, running on a kernel, with the bench
// as its source.
type loopBench struct {
	*cluster
	box, floor   *sandbox
	kernel       *loopKernel
	bursts       chan<- []sync.Event
	unresponsive chan []model.UnresponsiveEndpoints
	ended        chan error
	stop         context.CancelFunc
	closes       []func() error
}

// eventSource is a source whose events others send.
type eventSource chan chan<- []sync.Event

// Run implements [sync.Source].
func (v eventSource) Run(ctx context.Context, out chan<- []sync.Event) error {
	v <- out
	<-ctx.Done()
	return ctx.Err()
}

// patience is the limit for everything that is awaited.
const patience = time.Minute

// startLoop starts the loop in a network namespace of its own, and waits until the cluster is
// committed. It must be closed.
func startLoop(c *cluster) (*loopBench, commit, error) {
	box, err := newSandbox()
	if err != nil {
		return nil, commit{}, err
	}
	f := &loopBench{
		cluster: c, box: box, kernel: &loopKernel{Kernel: box.kernel, commits: make(chan commit, 16)},
		unresponsive: make(chan []model.UnresponsiveEndpoints), ended: make(chan error, 1), closes: []func() error{box.close},
	}
	first, err := f.start()
	if err != nil {
		return nil, first, errors.Join(err, f.close())
	}
	return f, first, nil
}

// startLoopWithFloor starts the loop, and makes a namespace with the same tables to which the same
// bytes are sent for the floor: the loop would treat them as another program's changes.
func startLoopWithFloor(c *cluster) (*loopBench, error) {
	f, first, err := startLoop(c)
	if err != nil {
		return nil, err
	}
	if f.floor, err = newSandbox(); err == nil {
		f.closes = append(f.closes, f.floor.close)
		_, err = f.sendFloor(first)
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *loopBench) start() (commit, error) {
	beside, err := f.box.kernel.Share()
	if err != nil {
		return commit{}, err
	}
	f.closes = append(f.closes, beside.Close)
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	v := make(eventSource, 1)
	loop := sync.NewLoop(sync.Config{
		NodeName: thisNode, Rules: config, DriftReader: beside, Observer: f.kernel, Unresponsive: f.unresponsive,
		Options: model.Options{PassiveChecks: model.PassiveChecksAvoid, MaxAvoidedPercent: 50},
	}, v, f.kernel, slog.New(slog.DiscardHandler))
	go func() { f.ended <- loop.Run(ctx) }()
	f.bursts = <-v
	all := []sync.Event{sync.SetServiceCIDRs{CIDRs: serviceCIDRs}}
	for each := range f.objects() {
		all = append(all, each...)
	}
	return f.send(all)
}

// close ends the loop and leaves the namespaces.
func (f *loopBench) close() error {
	var errs []error
	if f.stop != nil {
		f.stop()
		errs = append(errs, <-f.ended)
	}
	for i := len(f.closes) - 1; i >= 0; i-- {
		errs = append(errs, f.closes[i]())
	}
	return errors.Join(errs...)
}

// send sends a burst and waits for its commit.
func (f *loopBench) send(burst []sync.Event) (commit, error) {
	return f.follow(func() error { f.bursts <- burst; return nil })
}

// follow does something and waits until the loop has committed what follows from it.
func (f *loopBench) follow(do func() error) (c commit, err error) {
	for len(f.kernel.commits) > 0 {
		<-f.kernel.commits
	}
	start := time.Now()
	if err := do(); err != nil {
		return c, err
	}
	select {
	case c = <-f.kernel.commits:
		c.took = c.at.Sub(start)
		return c, c.Err
	case err := <-f.ended:
		f.ended <- err
		return c, errors.Join(errors.New("the loop ended"), err)
	case <-time.After(patience):
		return c, fmt.Errorf("wait for a commit: nothing for %s", patience)
	}
}

// sendFloor sends what the loop has sent, and returns how long that took.
func (f *loopBench) sendFloor(c commit) (time.Duration, error) {
	var all [][]byte
	for _, batch := range c.batches {
		parts, err := prepare(batch)
		if err != nil {
			return 0, err
		}
		all = append(all, parts...)
	}
	return f.floor.raw.send(all...)
}

// measurePair makes a change and its opposite, then sends the same bytes.
func (f *loopBench) measurePair(e changeKind, number int, to [2]*changeTimes) error {
	do, undo := e.prepare(f.cluster, number)
	var taken [2]commit
	for i, burst := range [...][]sync.Event{do, undo} {
		c, err := f.send(burst)
		if err != nil {
			return err
		}
		taken[i] = c
		to[i].total, to[i].kernel = append(to[i].total, c.took), append(to[i].kernel, c.Applied.Kernel)
		to[i].bytes = append(to[i].bytes, c.Applied.Bytes)
	}
	for i, c := range taken {
		took, err := f.sendFloor(c)
		if err != nil {
			return err
		}
		to[i].floor = append(to[i].floor, took)
	}
	return nil
}

// changeTimes are the times of a change that was repeated.
type changeTimes struct {
	total, kernel, floor report.Times
	bytes                []int
}

// commit is the result of a sync that changed something.
type commit struct {
	sync.Result
	batches []nft.Batch
	at      time.Time
	took    time.Duration // from its cause
}

// loopKernel is the kernel of the loop, which it observes, too.
type loopKernel struct {
	*kernel.Kernel
	commits chan commit
	next    commit
}

// Apply implements [sync.Kernel].
func (k *loopKernel) Apply(b nft.Batch) (nft.Applied, error) {
	applied, err := k.Kernel.Apply(b)
	if err == nil {
		k.next.batches, k.next.at = append(k.next.batches, b), time.Now()
	}
	return applied, err
}

// Synced implements [sync.Observer].
func (k *loopKernel) Synced(r sync.Result) {
	if k.next.Result = r; r.Err != nil || len(k.next.batches) > 0 {
		k.commits <- k.next
	}
	k.next = commit{}
}

// Queued implements [sync.Observer].
func (k *loopKernel) Queued(sync.QueuedChanges) {}

// Node implements [sync.Observer].
func (k *loopKernel) Node(sync.SetNode) {}
