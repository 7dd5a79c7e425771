package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// runningLoop is the proxy's loop, running on a kernel, with the bench as its source.
type runningLoop struct {
	*observedKernel
	box    *sandbox
	bursts chan<- []sync.Event
	ended  chan error
	stop   context.CancelFunc
	closes []func() error
	first  commit // what it began with
	// unresponsive receives endpoints that do not answer.
	unresponsive chan []model.UnresponsiveEndpoints
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

var errPatience = fmt.Errorf("nothing for %s", patience)

// startLoop starts the loop in a network namespace of its own with all objects of a
// cluster, and waits until they are committed. It must be closed.
func startLoop(c *cluster, rules nft.Config) (*runningLoop, error) {
	box, err := newSandbox()
	if err != nil {
		return nil, err
	}
	r := &runningLoop{observedKernel: observe(box.kernel), box: box, ended: make(chan error, 1), closes: []func() error{box.close}}
	r.unresponsive = make(chan []model.UnresponsiveEndpoints)
	if err := r.start(c, rules); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *runningLoop) start(c *cluster, rules nft.Config) error {
	beside, err := r.box.kernel.Share()
	if err != nil {
		return err
	}
	r.closes = append(r.closes, beside.Close)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	v := make(eventSource, 1)
	loop := sync.NewLoop(sync.Config{
		NodeName: thisNode, Rules: rules, DriftReader: beside, Observer: r.observedKernel,
		Unresponsive: r.unresponsive,
		Options:      model.Options{PassiveChecks: model.PassiveChecksAvoid, MaxAvoidedPercent: 50},
	}, v, r.observedKernel, slog.New(slog.DiscardHandler))
	go func() { r.ended <- loop.Run(ctx) }()
	r.bursts = <-v
	all := []sync.Event{sync.SetServiceCIDRs{CIDRs: serviceCIDRs}}
	for each := range c.objects() {
		all = append(all, each...)
	}
	first, err := r.follow(model.ServiceName{}, all)
	r.first = first.commit
	return err
}

// close ends the loop and leaves the namespace.
func (r *runningLoop) close() error {
	var errs []error
	if r.stop != nil {
		r.stop()
		errs = append(errs, <-r.ended)
	}
	for i := len(r.closes) - 1; i >= 0; i-- {
		errs = append(errs, r.closes[i]())
	}
	return errors.Join(errs...)
}

// awaitBatch waits for a batch, and for the end of the sync.
func (r *runningLoop) awaitBatch(awaited <-chan commit) (commit, error) {
	select {
	case c := <-awaited:
		_, err := r.awaitSync()
		return c, err
	case err := <-r.ended:
		r.ended <- err
		return commit{}, errors.Join(errors.New("the loop ended"), err)
	case <-time.After(patience):
		return commit{}, fmt.Errorf("wait for a batch: %w", errPatience)
	}
}

// awaitSync waits for the end of a sync.
func (r *runningLoop) awaitSync() (sync.Result, error) {
	select {
	case report := <-r.reports:
		return report, nil
	case <-time.After(patience):
		return sync.Result{}, fmt.Errorf("wait for the end of a sync: %w", errPatience)
	}
}

// dropReport drops the result of an earlier sync, if there is one.
func (r *runningLoop) dropReport() {
	select {
	case <-r.reports:
	default:
	}
}

// outcome is how a burst was committed.
type outcome struct {
	commit
	took time.Duration // from sending to the commit
}

// follow sends a burst and waits for the batch with its changes of the Service.
func (r *runningLoop) follow(name model.ServiceName, burst []sync.Event) (o outcome, err error) {
	r.dropReport()
	found := r.await(name)
	start := time.Now()
	r.bursts <- burst
	o.commit, err = r.awaitBatch(found)
	o.took = o.at.Sub(start)
	return o, err
}

// changedService returns the Service that a change is about.
func changedService(change []sync.Event) model.ServiceName {
	switch e := change[0].(type) {
	case sync.SetService:
		return e.Service.Name
	case sync.DeleteService:
		return e.Name
	case sync.SetSlice:
		return e.Slice.Service
	}
	return model.ServiceName{}
}
