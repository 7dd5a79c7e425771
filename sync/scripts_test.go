package sync_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
	"kube-vmap/sync/looptest"
)

var (
	update   = flag.Bool("update", false, "rewrite the expectations in scripts")
	onlySeed = flag.Uint64("seed", 0, "random history to run; 0 means fixed ones")
)

// TestScripts runs the scripts on a fake kernel; integration/fake runs them on
// the real one.
func TestScripts(t *testing.T) {
	looptest.Run(t, looptest.Options{
		Scripts: "testdata/scripts/*.txtar",
		Open:    func(testing.TB) sync.Kernel { return kerneltest.New() },
		Update:  *update,
	})
}

// noise returns random data.
func noise(seed uint64, n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(data) // never fails
	return data
}

// TestRandomHistories gives loops random objects: on a kernel without faults, and on one
// that refuses a tenth of all batches, fails in every other way, and whose tables other
// programs change.
func TestRandomHistories(t *testing.T) {
	faulty := kerneltest.FaultRates{Refused: 0.1, Denied: 0.02, NotSent: 0.02, NoAnswer: 0.02, Read: 0.1}
	seeds := []uint64{1, 2, 3, 4, 5, 6}
	if *onlySeed != 0 {
		seeds = []uint64{*onlySeed}
	}
	for _, seed := range seeds {
		for name, faults := range map[string]kerneltest.FaultRates{"sound": {}, "faulty": faulty} {
			t.Run(fmt.Sprintf("%s,seed=%d", name, seed), func(t *testing.T) {
				t.Parallel()
				looptest.History(t, kerneltest.New(), noise(seed, 6000), 500, faults)
			})
		}
	}
}

// FuzzObjects lets the fuzzer choose the objects, all the way into a fake kernel: conversion,
// selection of endpoints, claims, plan, batch.
func FuzzObjects(f *testing.F) {
	f.Add([]byte{})
	for seed := range uint64(10) {
		f.Add(noise(100+seed, int(100+150*seed)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		looptest.History(t, kerneltest.New(), data, 24, kerneltest.FaultRates{})
	})
}
