package sync_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/nft/wire"
	"kube-vmap/sync"
)

// costKernel records the costs of batches after the first one.
type costKernel struct {
	*kerneltest.Kernel
	loaded bool
	costs  []int
	sum    int
}

func (k *costKernel) Apply(b nft.Batch) (nft.Applied, error) {
	if k.loaded {
		cost := b.Counts().Cost()
		k.costs, k.sum = append(k.costs, cost), k.sum+cost
	}
	k.loaded = true
	return k.Kernel.Apply(b)
}

// crowd returns events that add and delete Services with many external addresses.
func crowd(services, addrs int) (set, removed []sync.Event) {
	for i := range services {
		s := webService(fmt.Sprintf("s%d", i), byte(i+1))
		for a := range addrs {
			s.Service.ExternalIPs = append(s.Service.ExternalIPs, netip.AddrFrom4([4]byte{198, byte(i), byte(a >> 8), byte(a)}))
		}
		set = append(set, s)
		removed = append(removed, sync.DeleteService{Name: s.Service.Name})
	}
	return set, removed
}

// TestLargeBurstIsDivided adds Services that would take long in one transaction, and then
// deletes all of them.
func TestLargeBurstIsDivided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, removed := crowd(16, 1000)
		k := &costKernel{Kernel: kerneltest.New()}
		s := newRigOn(t, k, sync.Config{}, slog.DiscardHandler)
		for _, burst := range [][]sync.Event{{webService("first", 200)}, set, removed} {
			if s.send(burst...); s.last().Err != nil {
				t.Error(s.last().Err)
			}
		}
		if len(k.costs) < 4 || k.sum < 2*nft.StepElements {
			t.Errorf("the costs are %v, want many parts", k.costs)
		}
		if most := slices.Max(k.costs); most > nft.StepElements {
			t.Errorf("a batch costs %d, want %d at most", most, nft.StepElements)
		}
	})
}

// interrupted is a kernel that has no memory after the first step of the second batch
// that has several.
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

// TestPartlyAppliedBatchIsReadBack replaces very many endpoints. After a part of them,
// the loop does not know the kernel's state.
func TestPartlyAppliedBatchIsReadBack(t *testing.T) {
	t.Parallel()
	slice := func(first int) sync.SetSlice {
		s := webSlice(model.IPv4, 1)
		for i := range 30_000 {
			e := s.Slice.Endpoints[0]
			e.Addr = netip.AddrFrom4([4]byte{10, byte(first), byte(i >> 8), byte(i)})
			s.Slice.Endpoints = append(s.Slice.Endpoints, e)
		}
		return s
	}
	synctest.Test(t, func(t *testing.T) {
		smooth, rough := kerneltest.New(), &interrupted{Kernel: kerneltest.New()}
		for failures, k := range []sync.Kernel{smooth, rough} {
			s := newRigOn(t, k, sync.Config{}, slog.DiscardHandler)
			for _, burst := range [][]sync.Event{{webService("web", 1), slice(1)}, {slice(2)}, {slice(3)}} {
				s.send(burst...)
				elapse(time.Second)
			}
			if log := s.take(); strings.Count(log, "synced false") != failures {
				t.Errorf("%d failures expected in\n%s", failures, log)
			}
		}
		want, err := smooth.Read()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := rough.Read(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the kernel holds something else, %v", err)
		}
	})
}
