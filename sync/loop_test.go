package sync_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
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
			case out <- nil: // always has events, even if none
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

func TestTriggersAreReportedWhenASyncSucceeds(t *testing.T) {
	for _, fault := range []kerneltest.Fault{kerneltest.FaultNotSent, kerneltest.FaultDenied} {
		synctest.Test(t, func(t *testing.T) {
			s := newRig(t, sync.Config{})
			s.send(webService("web", 1))
			s.kernel.Fail(fault, 1)
			change := webSlice(model.IPv4, 1)
			change.Triggered = time.Now()
			s.send(change)
			if r := s.last(); r.Err == nil || len(r.Triggered) != 0 {
				t.Errorf("the kernel failed, and the result is %+v", r)
			}
			elapse(time.Second)
			if r := s.last(); r.Err != nil || !slices.Equal(r.Triggered, []time.Time{change.Triggered}) || r.Drift || !r.Full {
				t.Errorf("after the failure the result is %+v", r)
			}
		})
	}
}

func TestForeignChangesAreReportedAsDrift(t *testing.T) {
	for _, f := range model.Families {
		synctest.Test(t, func(t *testing.T) {
			s := newRig(t, sync.Config{})
			s.send(webService("web", 1), webSlice(f, 1))
			if _, err := s.kernel.Apply(nft.Batch{nft.DeleteTable{Family: f}}); err != nil {
				t.Fatal(err)
			}
			s.send(webSlice(f, 2))
			if r := s.last(); r.Err != nil || !r.Drift || !r.Full {
				t.Errorf("%s: the result is %+v", f, r)
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
	ranges := [...]netip.Prefix{
		model.IPv4: netip.MustParsePrefix("10.244.1.0/24"), model.IPv6: netip.MustParsePrefix("fd00:10:244:1::/64"),
	}
	other := [...]netip.Prefix{model.IPv4: netip.MustParsePrefix("10.244.2.0/24"), model.IPv6: {}}
	for from, c := range map[string]sync.Config{"the node": {PodsFromNode: true}, "nowhere": {}} {
		synctest.Test(t, func(t *testing.T) {
			s := newRig(t, c)
			holds := func(when string, ranges [len(model.Families)]netip.Prefix) {
				t.Helper()
				if from == "nowhere" {
					ranges = [len(model.Families)]netip.Prefix{}
				}
				v, err := s.loop.Snapshot(t.Context())
				if err != nil || v.PodRanges != ranges {
					t.Errorf("ranges from %s, %s: %v, want %v, %v", from, when, v.PodRanges, ranges, err)
				}
			}
			node := func(r [len(model.Families)]netip.Prefix) sync.SetNode {
				return sync.SetNode{Node: model.Node{Name: "node-1", PodCIDRs: r}}
			}
			s.send(node(ranges), webService("web", 1), webSlice(model.IPv4, 1), webSlice(model.IPv6, 1))
			holds("at first", ranges)
			s.send(node(other))
			holds("when they change", other)
			s.send(sync.SetNode{Node: model.Node{Name: "node-1"}})
			holds("when the node is gone", other)
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

func TestOldestTriggerOfASliceIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, sync.Config{MinSyncPeriod: time.Hour, SyncPeriod: time.Hour})
		s.send(webService("web", 1))
		first := time.Now()
		for i := range byte(9) {
			change := webSlice(model.IPv4, i)
			change.Triggered = first.Add(time.Duration(i) * time.Second)
			s.send(change)
		}
		gone := webSlice(model.IPv6, 1)
		gone.Triggered = first
		s.send(gone)
		s.send(sync.DeleteSlice{Name: gone.Slice.Name})
		elapse(time.Hour)
		if r := s.last(); !slices.Equal(r.Triggered, []time.Time{first}) {
			t.Errorf("the result is %+v", r)
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
