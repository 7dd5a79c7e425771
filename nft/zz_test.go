package nft

import "testing"

func BenchmarkAdopt45k(b *testing.B) {
	want := tenEach(45_000)
	for i := range want.Set {
		want.Set[i].Pool.Cluster = want.Set[i].Pool.Cluster[:1]
	}
	b.ReportAllocs()
	for b.Loop() {
		Adopt(benchConfig, Tables{}, want)
	}
}
