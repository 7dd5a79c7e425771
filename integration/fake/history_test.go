// Package fake tests the fake kernel of nft/kernel/kerneltest against the real one, and runs
// the scripts of package sync, which that runs on the fake, on the real one.
package fake

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/integration/lab/labtest"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
	"kube-vmap/sync/looptest"
)

// realKernel opens nf_tables in a new network namespace, which is deleted with the test.
func realKernel(t testing.TB) *kernel.Kernel {
	t.Helper()
	return labtest.Kernel(t, labtest.Alone(t))
}

var onlySeed = flag.Uint64("seed", 0, "random history to run; 0 means fixed ones")

// TestHistoriesOnTheRealKernel gives loops random objects. The real kernel and the fake one must
// hold the same.
func TestHistoriesOnTheRealKernel(t *testing.T) {
	seeds, events := []uint64{1, 2, 3}, 500
	if *onlySeed != 0 {
		seeds = []uint64{*onlySeed}
	}
	if testing.Short() {
		events = 150
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			data := make([]byte, 12*events)
			_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(data) // never fails
			looptest.History(t, &both{realKernel(t), kerneltest.New()}, data, events, kerneltest.FaultRates{})
		})
	}
}

// both are the real kernel and the fake one.
type both struct {
	*kernel.Kernel
	fake *kerneltest.Kernel
}

// Read implements [sync.Kernel]. It compares the kernels.
func (b *both) Read() (nft.Tables, error) {
	have, err := b.Kernel.Read()
	fake, failed := b.fake.Read()
	if err == nil && failed == nil && !reflect.DeepEqual(have, fake) {
		failed = fmt.Errorf("the tables differ, -real +fake\n%s", cmp.Diff(have, fake, compareKeys))
	}
	return have, errors.Join(err, failed)
}

// Apply implements [sync.Kernel].
func (b *both) Apply(batch nft.Batch) (nft.Applied, error) {
	_, failed := b.fake.Apply(batch)
	applied, err := b.Kernel.Apply(batch)
	return applied, errors.Join(err, failed)
}

func TestScriptsOnTheRealKernel(t *testing.T) {
	looptest.Run(t, looptest.Options{
		Scripts: "../../sync/testdata/scripts/*.txtar",
		Open:    func(t testing.TB) sync.Kernel { return realKernel(t) },
	})
}
