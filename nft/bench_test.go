package nft

import (
	"net/netip"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/nfttest"
)

var benchConfig = Config{MasqueradeMark: DefaultMasqueradeMark}

// benchLoads are the loads that costs are measured for.
var benchLoads = []struct {
	name string
	load func(n int) Change
}{{"ClusterIP", tenEach}, {"NodePort+LB+Local", tenOutside}}

func tenEach(n int) Change    { return Change{Set: nfttest.TenEndpointsEach(n)} }
func tenOutside(n int) Change { return Change{Set: nfttest.TenEndpointsFromOutside(n)} }

// many is the number of Services of a benchmark.
const many = 10_000

func BenchmarkAdoptNothing(b *testing.B) {
	for _, l := range benchLoads {
		b.Run(l.name, func(b *testing.B) {
			want := l.load(many)
			b.ReportAllocs()
			for b.Loop() {
				Adopt(benchConfig, Tables{}, want)
			}
		})
	}
}

// A restart that finds all as it should be.
func BenchmarkAdoptUnchanged(b *testing.B) {
	for _, l := range benchLoads {
		b.Run(l.name, func(b *testing.B) {
			want := l.load(many)
			rules, _ := Adopt(benchConfig, Tables{}, want)
			have := rules.Tables()
			b.ReportAllocs()
			for b.Loop() {
				if _, batch := Adopt(benchConfig, have, want); len(batch) > 0 {
					b.Fatalf("the batch has %d ops", len(batch))
				}
			}
		})
	}
}

// service is the frontends of one Service of a load, with a pool of their own.
func service(c Change, i int) ([]model.Frontend, *model.Pool) {
	pool := *c.Set[i].Pool
	pool.Cluster = append([]netip.AddrPort(nil), pool.Cluster...)
	var out []model.Frontend
	for _, f := range c.Set {
		if f.Pool.Key == pool.Key {
			f.Pool = &pool
			out = append(out, f)
		}
	}
	return out, &pool
}

// benchPlan measures planning what becomes of one Service among many.
func benchPlan(b *testing.B, ops int, change func([]model.Frontend, *model.Pool) Change) {
	for _, l := range benchLoads {
		b.Run(l.name, func(b *testing.B) {
			want := l.load(many)
			rules, _ := Adopt(benchConfig, Tables{}, want)
			c := change(service(want, many/2))
			b.ReportAllocs()
			for b.Loop() {
				p := rules.Plan(c)
				if len(p.Batch) < ops {
					b.Fatalf("the batch has %d ops", len(p.Batch))
				}
			}
		})
	}
}

// The frontends from outside do not change with it, and the change does not have
// them.
func BenchmarkPlanReplacedEndpoint(b *testing.B) {
	benchPlan(b, 2, func(service []model.Frontend, pool *model.Pool) Change {
		pool.Cluster[9] = netip.MustParseAddrPort("10.254.0.1:8080")
		return Change{Set: service[:1]}
	})
}

func BenchmarkPlanLostEndpoint(b *testing.B) {
	benchPlan(b, 2, func(service []model.Frontend, pool *model.Pool) Change {
		pool.Cluster = pool.Cluster[:9]
		return Change{Set: service}
	})
}

func BenchmarkPlanDeletedService(b *testing.B) {
	benchPlan(b, 2, func(service []model.Frontend, _ *model.Pool) Change {
		var c Change
		for i := range service {
			c.Gone = append(c.Gone, service[i].Match)
		}
		return c
	})
}

// A Service of very many endpoints, of which one is replaced.
func BenchmarkPlanOneOfManyEndpoints(b *testing.B) {
	pool := &model.Pool{Key: model.Match{Family: model.IPv4, Addr: netip.MustParseAddr("10.96.0.1"), Protocol: model.TCP, Port: 80}}
	pod := netip.MustParseAddr("10.0.0.1")
	for range 100_000 {
		pool.Cluster = append(pool.Cluster, netip.AddrPortFrom(pod, 8080))
		pod = pod.Next()
	}
	f := model.Frontend{Match: pool.Key, Masquerade: model.MasqueradeOffPod, Pool: pool}
	rules, _ := Adopt(benchConfig, Tables{}, Change{Set: []model.Frontend{f}})
	other := *pool
	other.Cluster = append([]netip.AddrPort(nil), pool.Cluster...)
	other.Cluster[99_999] = netip.MustParseAddrPort("10.254.0.1:8080")
	g := f
	g.Pool = &other
	b.ReportAllocs()
	for b.Loop() {
		rules.Commit(rules.Plan(Change{Set: []model.Frontend{g}}))
		f, g = g, f
	}
}
