package sync_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"

	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
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
	ctx, cancel := context.WithCancel(t.Context())
	synced := 0
	next := make(chan struct{}, 1)
	config := sync.Config{NodeName: "node-1", Observer: afterSync(func(r sync.Report) {
		if r.Err != nil {
			t.Error(r.Err)
		}
		if synced++; synced == len(bursts) {
			cancel()
		}
		next <- struct{}{}
	})}
	loop := sync.NewLoop(config, sourceFunc(func(ctx context.Context, out chan<- []sync.Event) error {
		for _, burst := range bursts {
			out <- burst
			<-next
		}
		<-ctx.Done()
		return ctx.Err()
	}), k, slog.New(slog.DiscardHandler))
	if err := loop.Run(ctx); err != nil {
		t.Fatal(err)
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

// afterSync is an observer of syncs alone.
type afterSync func(sync.Report)

func (afterSync) Queued(sync.Queued)     {}
func (f afterSync) Synced(r sync.Report) { f(r) }
func (afterSync) Node(sync.SetNode)      {}
