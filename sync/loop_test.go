package sync_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

func TestBusySourceDoesNotDelaySync(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var loop *sync.Loop
	loop = newLoop(func(ctx context.Context, out chan<- []sync.Event) error {
		for ctx.Err() == nil {
			select {
			case out <- nil: // always has events, even if the list is empty
			case <-loop.Ready():
				cancel()
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	})
	if err := loop.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestFailedSourceEndsTheLoop(t *testing.T) {
	for _, failure := range []error{
		errors.New("no list"),
		fmt.Errorf("list of its own: %w", context.Canceled), // of another context
	} {
		loop := newLoop(func(context.Context, chan<- []sync.Event) error { return failure })
		if err := loop.Run(t.Context()); !errors.Is(err, failure) {
			t.Errorf("the source ended with %v, the loop with %v", failure, err)
		}
	}
}

func TestObserverSeesChangesAndResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, sync.Config{})
		web, slice := webService("web", 1), webSlice(model.IPv4, 1)
		web.Service.InternalPolicy, slice.Slice.Endpoints[0].Node = model.PolicyLocal, "node-1"
		s.send(sync.SetNode{Node: model.Node{Name: "node-1"}, Ineligible: "leaving"}, web, slice)
		s.expect("the first burst", "node node-1 leaving", "queued 1 1", "synced true")
		if r := s.last(); !r.Full || r.Drift || r.Services != 1 || r.Endpoints != 3 || r.Applied.Steps != 1 {
			t.Errorf("the first result is %+v", r)
		}
		triggered := time.Now()
		change := webSlice(model.IPv6, 2)
		change.Triggered = triggered
		s.send(change)
		s.expect("a change", "queued 0 1", "synced true")
		if r := s.last(); r.Full || r.Endpoints != 3 || !slices.Equal(r.Triggered, []time.Time{triggered}) || r.Counts.Added == 0 ||
			r.NoLocalEndpoints != (model.NoLocalEndpoints{Internal: [...]int{model.IPv6: 3}}) {
			t.Errorf("the result of the change is %+v", r)
		}
		s.send(sync.DeleteService{Name: web.Service.Name}, sync.DeleteSlice{Name: change.Slice.Name})
		s.expect("a deletion", "queued 1 1", "synced true")
		if r := s.last(); r.Services != 0 || r.Endpoints != 0 || len(r.Triggered) != 0 {
			t.Errorf("the result of the deletion is %+v", r)
		}
	})
}

// TestOldestTriggerIsReportedWhenASyncSucceeds changes a slice again and again while the kernel
// fails, and deletes another.
func TestOldestTriggerIsReportedWhenASyncSucceeds(t *testing.T) {
	for _, fault := range []kerneltest.Fault{kerneltest.FaultNotSent, kerneltest.FaultDenied} {
		synctest.Test(t, func(t *testing.T) {
			s := newRig(t, sync.Config{})
			s.send(webService("web", 1))
			s.kernel.Fail(fault, 1)
			first := time.Now()
			for i := range byte(9) {
				change, removed := webSlice(model.IPv4, i), webSlice(model.IPv6, 1)
				change.Triggered, removed.Triggered = first.Add(time.Duration(i)*time.Second), first
				s.send(change, removed)
			}
			s.send(sync.DeleteSlice{Name: webSlice(model.IPv6, 1).Slice.Name})
			if r := s.last(); r.Err == nil || len(r.Triggered) != 0 {
				t.Errorf("the kernel failed, and the result is %+v", r)
			}
			elapse(time.Second)
			if r := s.last(); r.Err != nil || !slices.Equal(r.Triggered, []time.Time{first}) || r.Drift || !r.Full {
				t.Errorf("after the failure the result is %+v", r)
			}
		})
	}
}

func TestMinSyncPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, sync.Config{MinSyncPeriod: time.Second})
		s.send(webService("web", 1))
		s.expect("the first burst, immediately", "queued 1 0", "synced true")
		s.send(webSlice(model.IPv4, 1))
		s.send(webSlice(model.IPv6, 1))
		s.expect("more, too soon", "queued 0 1", "queued 0 1")
		elapse(time.Second)
		s.expect("the period is over", "synced true")
		elapse(time.Minute)
		s.expect("nothing happens")
		s.send(webSlice(model.IPv6, 2))
		s.expect("a single change, immediately", "queued 0 1", "synced true")
	})
}

func TestPodRangesFollowTheNode(t *testing.T) {
	type prefixes = [len(model.Families)]netip.Prefix
	both := prefixes{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")}
	other := prefixes{netip.MustParsePrefix("10.244.2.0/24")}
	for _, follow := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newRig(t, sync.Config{PodsFromNode: follow})
			for _, step := range []struct{ node, want prefixes }{{both, both}, {other, other}, {prefixes{}, other}} {
				s.send(sync.SetNode{Node: model.Node{Name: "node-1", PodCIDRs: step.node}}, webService("web", 1))
				if !follow {
					step.want = prefixes{}
				}
				if v, err := s.loop.Snapshot(t.Context()); err != nil || v.PodRanges != step.want {
					t.Errorf("from the node %t: %v, want %v, %v", follow, v.PodRanges, step.want, err)
				}
			}
		})
	}
}

func TestRefusedPortsDoNotDelayTheFirstSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, sync.Config{MinSyncPeriod: time.Minute})
		for _, p := range model.Protocols {
			s.kernel.Refuse("default/web:"+p.String(), syscall.EINVAL, 0)
		}
		s.send(webService("web", 1), webSlice(model.IPv4, 1), webService("other", 2))
		if r := s.last(); r.Err != nil || r.QuarantinedPorts != 3 {
			t.Errorf("before any time has passed, the result is %+v", r)
		}
	})
}

func TestSyncPeriodLimitsTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, sync.Config{SyncPeriod: 2 * time.Second})
		s.kernel.Fail(kerneltest.FaultRead, 8)
		s.send(webService("web", 1))
		elapse(15 * time.Second) // with delays up to 30 s it would be 25
		if r := s.last(); r.Err != nil {
			t.Errorf("the result is %+v", r)
		}
	})
}

// disturbedKernel is a kernel that another program changes all the time.
type disturbedKernel struct {
	*kerneltest.Kernel
	changes atomic.Uint32
}

func (k *disturbedKernel) ForeignChanges() (uint32, error) { return k.changes.Add(1), nil }

// ReadOnce implements [sync.TableReader].
func (k *disturbedKernel) ReadOnce() (nft.Tables, bool, error) {
	return nft.Tables{}, true, errors.New("no answer")
}

func TestTablesThatCannotBeReadAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		k := &disturbedKernel{Kernel: kerneltest.New()}
		s := newRigOn(t, k, sync.Config{DriftReader: k}, slog.NewTextHandler(&log, nil))
		s.send(webService("web", 1), webSlice(model.IPv4, 1))
		s.take()
		if f := s.loop.ReadFailure(); f != nil {
			t.Errorf("before any failure: %+v", f)
		}
		s.kernel.Fail(kerneltest.FaultRead, 100)
		since := time.Now().Add(500 * time.Millisecond)
		elapse(10 * time.Second)
		f := s.loop.ReadFailure()
		if f == nil || f.Err == nil || !f.Since.Equal(since) {
			t.Errorf("after %s: %+v", 10*time.Second, f)
		}
		if n := strings.Count(log.String(), "cannot compare tables"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
		s.send(webSlice(model.IPv4, 2))
		s.expect("changes go on", "queued 0 1", "synced true")
		s.kernel.ClearFaults()
		elapse(time.Second)
		if f := s.loop.ReadFailure(); f != nil {
			t.Errorf("when tables can be read again: %+v", f)
		}
	})
}

// tornKernel is a kernel whose concurrent reads are useless because it changes under
// them.
type tornKernel struct {
	*sharedKernel
	torn, read atomic.Int32 // how many reads are, and reads that the loop waited for
}

// ReadOnce implements [sync.TableReader].
func (k *tornKernel) ReadOnce() (nft.Tables, bool, error) {
	have, err := k.Kernel.Read()
	return have, k.torn.Add(-1) < 0, err
}

// Read implements [sync.Kernel].
func (k *tornKernel) Read() (nft.Tables, error) {
	k.read.Add(1)
	return k.Kernel.Read()
}

func TestLoopWaitsForAReadOnlyIfOthersWereUseless(t *testing.T) {
	for torn, want := range map[int32]int32{0: 0, 3: 0, 4: 1} {
		synctest.Test(t, func(t *testing.T) {
			k := &tornKernel{sharedKernel: &sharedKernel{Kernel: kerneltest.New()}}
			s := newRigOn(t, k, sync.Config{DriftReader: k}, slog.DiscardHandler)
			s.send(webService("web", 1), webSlice(model.IPv4, 1))
			s.committed.take()
			if _, err := k.Apply(nft.Batch{nft.FlushChain{Family: model.IPv4, Name: "nat-prerouting"}}); err != nil {
				t.Fatal(err)
			}
			k.torn.Store(torn)
			before := k.read.Load()
			k.foreign.Add(1)
			elapse(time.Second)
			if got := s.committed.take(); !strings.Contains(got, "full") {
				t.Errorf("%d useless reads: not repaired: %s", torn, got)
			}
			if got := k.read.Load() - before; got != want {
				t.Errorf("%d useless reads: the loop waited for %d, want %d", torn, got, want)
			}
		})
	}
}

// slowKernel needs a minute for each batch.
type slowKernel struct{ *kerneltest.Kernel }

func (k slowKernel) Apply(b nft.Batch) (nft.Applied, error) {
	<-time.After(time.Minute) // no real time: see package synctest
	return k.Kernel.Apply(b)
}

func TestSnapshotWaitsForTheKernelUntilItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nothing := sourceFunc(func(ctx context.Context, out chan<- []sync.Event) error {
			out <- nil
			<-ctx.Done()
			return ctx.Err()
		})
		l := sync.NewLoop(sync.Config{NodeName: "node-1"}, nothing, slowKernel{kerneltest.New()}, slog.New(slog.DiscardHandler))
		before, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Snapshot(before); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("of a loop that does not run: %v", err)
		}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		<-time.After(time.Second)
		during, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := l.Snapshot(during); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the kernel works: %v", err)
		}
		v, err := l.Snapshot(t.Context())
		if err != nil || !v.Ready || !v.KernelKnown || v.Node.Name != "node-1" {
			t.Errorf("without a deadline: %+v, %v", v, err)
		}
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := l.Snapshot(t.Context()); err == nil {
			t.Error("a loop that has ended returned a snapshot")
		}
	})
}

// TestChangesBeforeWeOwnTablesAreNotDrift has tables of a process that ended, which another program may
// have changed before the loop owns them, and did not.
func TestChangesBeforeWeOwnTablesAreNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &disturbedKernel{Kernel: kerneltest.New()}
		newRigOn(t, k, sync.Config{}, slog.DiscardHandler).send(webService("web", 1))
		s := newRigOn(t, k, sync.Config{Rules: nft.Config{Protect: true}, MinSyncPeriod: time.Second}, slog.DiscardHandler)
		s.send(webService("web", 1))
		s.send(webSlice(model.IPv4, 1))
		elapse(time.Second)
		if n, r := len(s.results), s.last(); n != 2 || r.Err != nil || r.Drift || r.Endpoints == 0 {
			t.Errorf("%d syncs, the last one: %+v", n, r)
		}
	})
}

// TestCallEndsWithItsContext has a goroutine take a long time for the call.
func TestCallEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		requests, finish := make(chan func()), make(chan struct{})
		go func() { (<-requests)() }()
		_, err := sync.CallOn(ctx, requests, nil, func() struct{} { cancel(); <-finish; return struct{}{} })
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(finish)
	})
}
