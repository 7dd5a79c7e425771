package sync_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/nft/wire"
	"kube-vmap/sync"
)

// costs is a kernel that notes what batches cost after the first load.
type costs struct {
	*kerneltest.Kernel
	loaded bool
	of     []int
	sum    int
}

func (k *costs) Apply(b nft.Batch) (nft.Applied, error) {
	if k.loaded {
		cost := b.Counts().Cost()
		k.of, k.sum = append(k.of, cost), k.sum+cost
	}
	k.loaded = true
	return k.Kernel.Apply(b)
}

// crowd are Services with many external addresses, which no transaction but the
// switch may add.
func crowd(services, addrs int) (set, gone []sync.Event) {
	for i := range services {
		s := web(fmt.Sprintf("s%d", i), byte(i+1))
		for a := range addrs {
			s.Service.ExternalIPs = append(s.Service.ExternalIPs, netip.AddrFrom4([4]byte{198, byte(i), byte(a >> 8), byte(a)}))
		}
		set = append(set, s)
		gone = append(gone, sync.DeleteService{Name: s.Service.Name})
	}
	return set, gone
}

// TestABurstThatCostsTooMuchGoesInParts has a burst of Services that one transaction
// would take long for, and then has all of them go.
func TestABurstThatCostsTooMuchGoesInParts(t *testing.T) {
	set, gone := crowd(20, 1500)
	bursts := [][]sync.Event{{web("first", 200)}, set, gone}
	k := &costs{Kernel: kerneltest.New()}
	for _, err := range runThrough(t, k, bursts) {
		t.Error(err)
	}
	if len(k.of) < 4 || k.sum < 3*nft.StepElements {
		t.Errorf("the costs are %v, want many parts", k.of)
	}
	for _, cost := range k.of {
		if cost > nft.StepElements {
			t.Errorf("a batch costs %d, want %d at most", cost, nft.StepElements)
		}
	}
}

// runThrough runs a loop until the kernel has taken each burst, one after the other,
// and returns the errors of syncs that did not work.
func runThrough(t *testing.T, k sync.Kernel, bursts [][]sync.Event) (failures []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next := make(chan struct{}, 1)
	config := sync.Config{NodeName: "node-1", Observer: afterSync(func(r sync.Result) {
		if r.Err != nil {
			failures = append(failures, r.Err)
			return
		}
		next <- struct{}{}
	})}
	loop := sync.NewLoop(config, sourceFunc(func(ctx context.Context, out chan<- []sync.Event) error {
		for _, burst := range bursts {
			out <- burst
			<-next
		}
		cancel()
		return ctx.Err()
	}), k, slog.New(slog.DiscardHandler))
	if err := loop.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return failures
}

// interrupted is a kernel that takes the first step of the second batch which has
// several, and then has no memory.
type interrupted struct {
	*kerneltest.Kernel
	large int
}

func (k *interrupted) Apply(b nft.Batch) (nft.Applied, error) {
	if steps := b.Steps(nft.StepElements); len(steps) > 1 {
		if k.large++; k.large == 2 {
			a, err := k.Kernel.Apply(steps[0])
			return a, errors.Join(err, &wire.Error{Errno: unix.ENOMEM})
		}
	}
	return k.Kernel.Apply(b)
}

// TestABatchThatWasTakenInPartIsReadBack replaces all of very many endpoints: what the
// loop knew of the kernel is wrong after a part of that.
func TestABatchThatWasTakenInPartIsReadBack(t *testing.T) {
	slice := func(first int) sync.SetSlice {
		s := served(model.IPv4, 1)
		for i := range 30_000 {
			e := s.Slice.Endpoints[0]
			e.Addr = netip.AddrFrom4([4]byte{10, byte(first), byte(i >> 8), byte(i)})
			s.Slice.Endpoints = append(s.Slice.Endpoints, e)
		}
		return s
	}
	bursts := [][]sync.Event{{web("web", 1), slice(1)}, {slice(2)}, {slice(3)}}
	smooth, rough := kerneltest.New(), &interrupted{Kernel: kerneltest.New()}
	runThrough(t, smooth, bursts)
	synctest.Test(t, func(t *testing.T) {
		if failures := runThrough(t, rough, bursts); len(failures) != 1 {
			t.Errorf("failures: %v, want one", failures)
		}
	})
	want, err := smooth.Read()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := rough.Read(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the kernel holds something else, %v", err)
	}
}

// afterSync is an observer of syncs alone.
type afterSync func(sync.Result)

func (afterSync) Queued(sync.QueuedChanges) {}
func (f afterSync) Synced(r sync.Result)    { f(r) }
func (afterSync) Node(sync.SetNode)         {}
