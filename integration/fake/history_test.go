package fake

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/nft/wire"
	"kube-vmap/sync/looptest"
)

var onlySeed = flag.Uint64("seed", 0, "random history to run; 0 means fixed ones")

// TestFakeEqualsRealKernelInRandomHistories runs the same random histories on both, with wrong
// batches in between, and compares their tables after each batch.
func TestFakeEqualsRealKernelInRandomHistories(t *testing.T) {
	seeds := []uint64{1, 2}
	if *onlySeed != 0 {
		seeds = []uint64{*onlySeed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("right,seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			k := newTee(t, seed)
			looptest.History(t, k, looptest.HistoryOptions{Seed: seed, Events: 150})
			k.report(t)
		})
		t.Run(fmt.Sprintf("wrong,seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			k := newTee(t, seed)
			k.wrongs.Store(3)
			looptest.History(t, k, looptest.HistoryOptions{
				Seed: seed, Events: 120, Faults: kerneltest.FaultRates{NoAnswer: 0.05, Read: 0.05},
				BeforeEnd: func() { k.wrongs.Store(0) },
			})
			k.report(t)
		})
	}
}

// A tee is two kernels that get the same calls.
type tee struct {
	t    *testing.T
	fake *kerneltest.Kernel
	real *kernel.Kernel
	rand *rand.Rand
	// wrongs is how many wrong batches precede each right one.
	wrongs  atomic.Int32
	results map[string]int
	differs bool // they differ already, so they are no longer compared
}

func newTee(t *testing.T, seed uint64) *tee {
	return &tee{
		t: t, fake: kerneltest.New(), real: realKernel(t),
		rand: rand.New(rand.NewPCG(seed, 2)), results: map[string]int{},
	}
}

// Read reads both, which must be equal.
func (k *tee) Read() (nft.Tables, error) {
	want, err := k.real.Read()
	if err != nil || k.differs {
		return want, err
	}
	got, err := k.fake.Read()
	if err != nil {
		return want, err
	}
	if !reflect.DeepEqual(want, got) { // much faster than cmp
		k.differ("the tables differ, -real +fake\n%s", cmp.Diff(want, got, compareKeys))
	}
	return want, nil
}

// ForeignChanges returns a constant: no other program changes either of them.
func (k *tee) ForeignChanges() (uint32, error) { return 0, nil }

// differ reports how the fake differs from the real one.
func (k *tee) differ(format string, args ...any) {
	k.t.Errorf(format, args...)
	k.differs = true
}

// Apply applies wrong batches, then the right one.
func (k *tee) Apply(b nft.Batch) (nft.Applied, error) {
	for range k.wrongs.Load() {
		have, err := k.Read()
		if err != nil {
			return nft.Applied{}, err
		}
		wrong := b
		for range 1 + k.rand.IntN(2) {
			wrong = spoil(k.rand, wrong, have)
		}
		_, err = k.apply(wrong)
		k.results[outcome(err)]++
	}
	a, err := k.apply(b)
	k.results[outcome(err)]++
	return a, err
}

// apply applies a batch to both and compares the errors, and the tables afterwards.
func (k *tee) apply(b nft.Batch) (nft.Applied, error) {
	applied, err := k.real.Apply(b)
	if k.differs {
		return applied, err
	}
	_, fakeErr := k.fake.Apply(b)
	if want, got := explain(err), explain(fakeErr); want != got {
		k.differ("real: %s\nfake: %s", want, got)
	} else if _, err := k.Read(); err != nil {
		k.differ("read: %v", err)
	}
	if k.differs {
		k.t.Logf("after the batch\n%s", b)
	}
	return applied, err
}

// explain returns an error with everything that the loop may use. Which bound of an interval was
// refused may differ.
func explain(err error) string {
	var refusal *wire.Error
	if !errors.As(err, &refusal) {
		return fmt.Sprint(err)
	}
	if ofIntervals(refusal.Op) {
		return outcome(err)
	}
	refusal.Message = "" // the loop does not use it
	return fmt.Sprintf("%v; service %s, element %v, expression %q", refusal, refusal.Service, refusal.Element, refusal.Expression)
}

// ofIntervals reports whether the operation has elements that are intervals.
func ofIntervals(op nft.Op) bool {
	switch op := op.(type) {
	case nft.AddElements:
		return op.Set.Kind == nft.SetServiceCIDRs
	case nft.DeleteElements:
		return op.Set.Kind == nft.SetServiceCIDRs
	}
	return false
}

// outcome returns a short form of an error.
func outcome(err error) string {
	var refusal *wire.Error
	if errors.As(err, &refusal) {
		return fmt.Sprintf("%T %v", refusal.Op, refusal.Errno)
	}
	return fmt.Sprint(err)
}

func (k *tee) report(t *testing.T) { t.Log(k.results) }
