package top

import (
	"testing"

	"kube-vmap/cmd/inspect/top/toptest"
)

// manyBench is the number of Services in the largest clusters.
const manyBench = 45_000

// BenchmarkSheet measures building a sheet, in the background.
func BenchmarkSheet(b *testing.B) {
	one, two := toptest.Document(0, toptest.Crowd(manyBench, 1)...), toptest.Document(1, toptest.Crowd(manyBench, 2)...)
	before := sheetOf(one, serviceRows, nil)
	for b.Loop() {
		sheetOf(two, serviceRows, before)
	}
}
