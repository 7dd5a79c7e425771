package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/process"
)

// following is how a proxy and the floor follow changes.
type following struct {
	*world
	proxy, floor *timedProcess

	committed report.Times // from the request to the commit
	answered  report.Times // from the API server's answer to the commit
	handled   report.Times // from the request to the informers' handler
	// The processor time of each for one change.
	proxyCPU, floorCPU time.Duration

	sent map[string]time.Time // by the resource version that came of it
}

// follow makes changes, so many a second.
func (f *following) follow(ctx context.Context, changes []write, rate float64) error {
	pace := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer pace.Stop()
	f.sent = map[string]time.Time{}
	lines := f.floor.Log.Len()
	<-pace.C
	stop, err := f.watchCPU()
	if err != nil {
		return err
	}
	for _, change := range changes {
		if err := f.one(ctx, change); err != nil {
			return err
		}
		<-pace.C // what a change leads to meanwhile belongs to it
	}
	if err := stop(len(changes)); err != nil {
		return err
	}
	return f.addHandled(f.floor.Log.Entries(lines))
}

// watchCPU starts to measure processor time; stop divides it by the number of changes.
func (f *following) watchCPU() (stop func(n int) error, err error) {
	proxy, err := f.proxy.cpu()
	if err != nil {
		return nil, err
	}
	floor, err := f.floor.cpu()
	if err != nil {
		return nil, err
	}
	return func(n int) error {
		proxyNow, err := f.proxy.cpu()
		if err != nil {
			return err
		}
		floorNow, err := f.floor.cpu()
		f.proxyCPU, f.floorCPU = (proxyNow-proxy)/time.Duration(n), (floorNow-floor)/time.Duration(n)
		return err
	}, nil
}

// one makes a change and waits for the commit that it leads to.
func (f *following) one(ctx context.Context, change write) error {
	before, err := f.kernel.Generation()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	done := make(chan error, 1)
	var committed time.Time
	go func() {
		var err error
		committed, err = f.awaitCommit(ctx, before)
		done <- err
	}()
	version, err := change(ctx)
	answered := time.Now()
	if err != nil {
		cancel()
	}
	if err := errors.Join(err, <-done); err != nil {
		return err
	}
	f.sent[version] = begin
	f.committed.Add(committed.Sub(begin))
	f.answered.Add(committed.Sub(answered))
	return nil
}

// awaitCommit waits until the kernel has committed something, and returns when.
func (f *following) awaitCommit(ctx context.Context, before uint32) (time.Time, error) {
	for begin := time.Now(); time.Since(begin) < patience; {
		now, err := f.kernel.Generation()
		if err != nil || now != before {
			return time.Now(), err
		}
		if ctx.Err() != nil {
			return time.Time{}, ctx.Err()
		}
		// Long enough to leave the processor to others, and short compared with what is
		// measured. The runtime's own timers are too coarse for that.
		pause := unix.NsecToTimespec(int64(max(100*time.Microsecond, time.Since(begin)/100)))
		if err := unix.Nanosleep(&pause, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return time.Time{}, fmt.Errorf("wait for a commit: %w", err)
		}
	}
	return time.Time{}, fmt.Errorf("no commit within %s", patience)
}

// addHandled adds the times at which the informers received the changes.
func (f *following) addHandled(log []process.Entry) error {
	for _, line := range log {
		began, ok := f.sent[line["version"]]
		if !ok || line["msg"] != "seen" {
			continue
		}
		at, err := strconv.ParseInt(line["at"], 10, 64)
		if err != nil {
			return fmt.Errorf("read what informers saw: %w", err)
		}
		f.handled.Add(time.Unix(0, at).Sub(began))
	}
	if len(f.handled) != len(f.sent) {
		return fmt.Errorf("informers saw %d of %d changes", len(f.handled), len(f.sent))
	}
	return nil
}
