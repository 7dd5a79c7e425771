package looptest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/listen/listentest"
	"kube-vmap/sync/follow/slowstart"
)

// rig is a loop with its kernel and source, and slow starts, in a bubble of synctest. The kernel outlives
// loops.
type rig struct {
	*objects
	config sync.Config
	kernel sync.Kernel // without faults, but with a lock
	faulty *kerneltest.Faulty
	meter  *kernelMeter
	log    listentest.LogBuffer

	loop   *sync.Loop
	source source
	cancel context.CancelFunc
	done   chan error
	sent   bool // the first burst
}

func newRig(k sync.Kernel, s kerneltest.FaultRates, seed uint64) *rig {
	r := &rig{objects: newObjects(), config: config, kernel: kerneltest.NewFaulty(k, kerneltest.FaultRates{}, 0)}
	r.faulty = kerneltest.NewFaulty(r.kernel, s, seed)
	r.meter = &kernelMeter{kernel: r.faulty, gate: make(chan struct{}, 1)}
	return r
}

// start runs a new loop.
func (r *rig) start() {
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	r.source = make(source)
	c := r.config
	c.DriftReader = r.meter
	overlays := make(chan []model.Overlay)
	starts := slowstart.New(overlays, nil)
	c.Overlays, c.Followers = overlays, []sync.Follower{starts}
	r.loop = sync.NewLoop(c, r.source, r.meter, slog.New(slog.NewTextHandler(&r.log,
		&slog.HandlerOptions{Level: sync.LevelBatch, ReplaceAttr: dropTimes})))
	r.done = make(chan error, 1)
	r.sent = false
	go func(l *sync.Loop, done chan<- error) { done <- l.Run(ctx) }(r.loop, r.done)
	go func() { _ = starts.Run(ctx) }() // never fails
	synctest.Wait()
}

// dropTimes removes log attributes that differ from run to run.
func dropTimes(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == "took" {
		return slog.Attr{}
	}
	return a
}

// stop ends the loop's context, if it runs.
func (r *rig) stop() error {
	if r.loop == nil {
		return nil
	}
	r.loop = nil
	r.cancel()
	return <-r.done
}

// sendBurst sends the changes that were not sent yet.
func (r *rig) sendBurst() {
	r.source <- r.burst(!r.sent)
	r.sent = true
	synctest.Wait()
}

// wait lets time pass.
func (r *rig) wait(d time.Duration) {
	time.Sleep(d) // no real time: see package synctest
	synctest.Wait()
}

// diff returns how the kernel differs from the desired state, or "".
func (r *rig) diff() (string, error) {
	have, err := r.kernel.Read()
	if err != nil {
		return "", err
	}
	want := kerneltest.New()
	if _, err := want.Apply(sync.Compare(r.config, r.all(), interfaces, nft.Tables{})); err != nil {
		return "", err
	}
	fresh, err := want.Read()
	return cmp.Diff(strings.Split(Summary(fresh), "\n"), strings.Split(Summary(have), "\n")), err
}

// check returns an error if the kernel does not hold the desired state.
func (r *rig) check() error {
	diff, err := r.diff()
	if err == nil && diff != "" {
		err = fmt.Errorf("the kernel differs from what it should hold, -want +got\n%s", diff)
	}
	return err
}

// logTail returns the last n lines of the log.
func (r *rig) logTail(n int) string {
	lines := strings.SplitAfter(r.log.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}

// source is a sync.Source that sends what a test gives it.
type source chan []sync.Event

// Run sends bursts.
func (s source) Run(ctx context.Context, out chan<- []sync.Event) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case events := <-s:
			sync.Send(ctx, out, events)
		}
	}
}
