package sync_test

import (
	"flag"
	"fmt"
	"testing"

	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync/looptest"
)

var onlySeed = flag.Uint64("seed", 0, "random history to run; 0 means fixed ones")

// TestRandomHistories gives loops random events: on a kernel without faults, and on one
// that refuses a tenth of all batches, fails in every other way, and whose tables other
// programs change.
func TestRandomHistories(t *testing.T) {
	faulty := kerneltest.FaultRates{Refused: 0.1, Denied: 0.02, NotSent: 0.02, NoAnswer: 0.02, Read: 0.1}
	seeds := []uint64{1, 2, 3}
	if *onlySeed != 0 {
		seeds = []uint64{*onlySeed}
	}
	for _, seed := range seeds {
		for name, faults := range map[string]kerneltest.FaultRates{"sound": {}, "faulty": faulty} {
			t.Run(fmt.Sprintf("%s,seed=%d", name, seed), func(t *testing.T) {
				t.Parallel()
				looptest.History(t, kerneltest.New(), looptest.HistoryOptions{Seed: seed, Events: 500, Faults: faults})
			})
		}
	}
}
