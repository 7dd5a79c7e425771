package leastconn

import (
	"net/netip"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// BenchmarkSteerTenThousandPools has 10,000 pools of 10 endpoints, with a connection each.
func BenchmarkSteerTenThousandPools(b *testing.B) {
	all, counts := pools{}, map[endpoint]count{}
	for i := range uint32(10_000) {
		m := model.Match{Addr: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Protocol: model.TCP, Port: 80}
		p := &model.Pool{Key: m, Scheduler: model.SchedulerLeastConnections}
		for k := range byte(10) {
			e := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 128 + k, byte(i >> 8), byte(i)}), 8080)
			p.Cluster = append(p.Cluster, e)
			counts[endpoint{model.TCP, e}] = count{active: 1}
		}
		all.apply(sync.Committed{Set: []model.Frontend{{Match: m, Pool: p}}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if changes := all.steer(counts, time.Second, time.Second); len(changes) > 0 {
			b.Fatalf("%d changes", len(changes))
		}
	}
}
