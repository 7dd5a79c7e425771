package flows

import (
	"fmt"
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// BenchmarkList compares the costs of listing the flows of some ports, of 100,000 flows, and of
// listing all.
func BenchmarkList(b *testing.B) {
	for _, f := range model.Families {
		x := newTable(b)
		keep, stale := crowd(f, 100_000)
		x.add(slices.Concat(keep, stale)...)
		for _, ports := range []int{1, 4, 8, 0} {
			q := conntrack.Query{Family: f, Protocol: model.UDP}
			for i := range ports {
				q.Ports = append(q.Ports, 100+uint16(i))
			}
			b.Run(fmt.Sprintf("%s/%d ports", f, ports), func(b *testing.B) {
				c := x.open()
				x.list(c, conntrack.Query{Family: f, Protocol: model.UDP}, isStale) // sets the count of entries
				b.ReportAllocs()
				for b.Loop() {
					x.list(c, q, isStale)
				}
			})
		}
		b.Run(f.String()+"/other protocol", func(b *testing.B) {
			c := x.open()
			b.ReportAllocs()
			for b.Loop() {
				x.list(c, conntrack.Query{Family: f, Protocol: model.TCP}, isStale)
			}
		})
	}
}

// BenchmarkDelete deletes 1,000 flows that were listed before.
func BenchmarkDelete(b *testing.B) {
	x := newTable(b)
	keep, stale := crowd(model.IPv4, 10_000)
	x.add(keep...)
	c := x.open()
	for b.Loop() {
		b.StopTimer()
		x.add(stale...)
		found := x.list(c, conntrack.Query{Protocol: model.UDP}, isStale)
		b.StartTimer()
		x.delete(c, found, len(stale))
	}
}
