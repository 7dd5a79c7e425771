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

// running is the loop of the proxy itself, at work on a kernel. What it is told
// comes from the bench.
type running struct {
	*watched
	box    *sandbox
	bursts chan<- []sync.Event
	ended  chan error
	stop   context.CancelFunc
	closes []func() error
	first  commit // what it began with
}

// voice is a source that lets others speak.
type voice chan chan<- []sync.Event

// Run implements [sync.Source].
func (v voice) Run(ctx context.Context, out chan<- []sync.Event) error {
	v <- out
	<-ctx.Done()
	return ctx.Err()
}

// patience is how long anything that is waited for may take.
const patience = time.Minute

var errPatience = fmt.Errorf("nothing for %s", patience)

// startLoop starts the loop in a network namespace of its own with all objects of a
// cluster, and waits until the kernel has taken them. It must be closed.
func startLoop(c *cluster, rules nft.Config, alter func(nft.Batch) nft.Batch) (*running, error) {
	box, err := newSandbox()
	if err != nil {
		return nil, err
	}
	r := &running{watched: newWatched(box.kernel), box: box, ended: make(chan error, 1), closes: []func() error{box.close}}
	r.alter = alter
	if err := r.start(c, rules); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *running) start(c *cluster, rules nft.Config) error {
	beside, err := r.box.kernel.Share()
	if err != nil {
		return err
	}
	r.closes = append(r.closes, beside.Close)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	v := make(voice, 1)
	loop := sync.NewLoop(sync.Config{NodeName: thisNode, Rules: rules, DriftReader: beside, Observer: r.watched},
		v, r.watched, slog.New(slog.DiscardHandler))
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

// close ends the loop and lets go of the namespace.
func (r *running) close() error {
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

// found waits for what is awaited, and until the loop has nothing to do.
func (r *running) found(awaited <-chan commit) (commit, error) {
	select {
	case c := <-awaited:
		_, err := r.report()
		return c, err
	case err := <-r.ended:
		r.ended <- err
		return commit{}, errors.Join(errors.New("the loop ended"), err)
	case <-time.After(patience):
		return commit{}, fmt.Errorf("wait for a batch: %w", errPatience)
	}
}

// report waits for the end of a sync.
func (r *running) report() (sync.Result, error) {
	select {
	case report := <-r.reports:
		return report, nil
	case <-time.After(patience):
		return sync.Result{}, fmt.Errorf("wait for the end of a sync: %w", errPatience)
	}
}

// forget drops the report of a sync that nobody asked for.
func (r *running) forget() {
	select {
	case <-r.reports:
	default:
	}
}

// outcome is what became of a burst.
type outcome struct {
	commit
	// took is from when it was sent to when the kernel had taken it.
	took time.Duration
	// later is how many batches were begun and over in between: after the burst stood
	// in the loop's queue, and without it.
	later int64
}

// follow sends a burst and waits for the batch that has what it says of the Service.
func (r *running) follow(name model.ServiceName, burst []sync.Event) (o outcome, err error) {
	r.forget()
	found := r.await(name)
	start := time.Now()
	r.bursts <- burst
	// One that is begun at this very moment may be counted or not.
	begun := r.begun.Load()
	o.commit, err = r.found(found)
	o.took, o.later = o.at.Sub(start), max(o.number-begun-1, 0)
	return o, err
}

// subject is the Service that a change is about.
func subject(change []sync.Event) model.ServiceName {
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
