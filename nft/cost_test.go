package nft

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// costOf is what planning and committing one change takes at least, of changes that
// lead back and forth: memory exactly, and processor time of the thread, since the wall
// clock would count other programs, too.
func costOf(r *Ruleset, changes [2]Change) (bytes uint64, took time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := range 9 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := processorTime()
		p := r.Plan(changes[i%2])
		r.Commit(p)
		elapsed := processorTime() - start
		runtime.ReadMemStats(&after)
		if i < 2 {
			continue // room that stays
		}
		if n := after.TotalAlloc - before.TotalAlloc; bytes == 0 || n < bytes {
			bytes = n
		}
		if took == 0 || elapsed < took {
			took = elapsed
		}
	}
	return bytes, took
}

func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// costFrontends are those of a Service at 10.96.0.i, and what may be many of it.
func costFrontends(i, ports, addrs, ranges, endpoints int) []model.Frontend {
	var out []model.Frontend
	var list []netip.AddrPort
	for k := range endpoints {
		list = append(list, netip.AddrPortFrom(costAddr(20, k), 8080))
	}
	for n := range ports {
		key := model.Match{Addr: costAddr(10, i), Protocol: model.TCP, Port: uint16(n + 1)}
		f := model.Frontend{Match: key, Pool: &model.Pool{Key: key, Cluster: list, Scheduler: model.SchedulerRandom}}
		f.Service.Namespace, f.Service.Name, f.Service.Port = "shop", fmt.Sprint("web-", i), fmt.Sprint("p", n)
		if endpoints == 0 {
			f.Verdict = model.VerdictReject
		}
		out = append(out, f)
		for a := range addrs {
			f.Kind, f.Match.Addr = model.KindLoadBalancerIP, costAddr(30+i, a)
			for k := range ranges {
				f.Sources = append(f.Sources, netip.PrefixFrom(costAddr(40, k), 32))
			}
			f.Restricted = ranges > 0
			out = append(out, f)
		}
	}
	return out
}

func costAddr(first, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(first), byte(n >> 16), byte(n >> 8), byte(n)})
}

// TestPlanCostIsLinear compares one change at three sizes, each twice
// the one before: of what the change is about it may take as much more, of what is
// beside it no more.
func TestPlanCostIsLinear(t *testing.T) {
	comes := func(frontends []model.Frontend) [2]Change {
		var gone []model.Match
		for _, f := range frontends {
			gone = append(gone, f.Match)
		}
		return [2]Change{{Set: frontends}, {Gone: gone}}
	}
	own := map[string]func(n int) [2]Change{
		"ports":         func(n int) [2]Change { return comes(costFrontends(0, n, 0, 0, 3)) },
		"refused ports": func(n int) [2]Change { return comes(costFrontends(0, n, 0, 0, 0)) },
		"addresses":     func(n int) [2]Change { return comes(costFrontends(0, 1, n, 0, 3)) },
		"source ranges": func(n int) [2]Change { return comes(costFrontends(0, 1, 1, n, 3)) },
		"endpoints":     func(n int) [2]Change { return comes(costFrontends(0, 1, 0, 0, n)) },
		"slots": func(n int) [2]Change {
			heavy, light := costFrontends(0, 1, 0, 0, n), costFrontends(0, 1, 0, 0, n)
			heavy[0].Pool.ClusterShares = slices.Repeat([]uint16{3}, n)
			light[0].Pool.ClusterShares = slices.Repeat([]uint16{2, 1}, n/2)
			return [2]Change{{Set: heavy}, {Set: light}}
		},
		"more endpoints": func(n int) [2]Change {
			return [2]Change{{Set: costFrontends(0, 1, 0, 0, n)}, {Set: costFrontends(0, 1, 0, 0, n-n/10)}}
		},
	}
	beside := map[string]func(n int) []model.Frontend{
		"other Services": func(n int) (all []model.Frontend) {
			for i := range n {
				all = append(all, costFrontends(i+1, 1, 0, 0, 3)...)
			}
			return all
		},
		"source ranges of others": func(n int) []model.Frontend { return costFrontends(1, 1, 1, n, 3) },
		"endpoints of others":     func(n int) []model.Frontend { return costFrontends(1, 1, 0, 0, n) },
	}
	const n = 1000
	check := func(t *testing.T, cost func(int) (uint64, time.Duration), linear bool) {
		t.Helper()
		bytes, took := cost(n)
		const times = 4
		moreBytes, longer := cost(times * n)
		most := bytes + bytes/4 + 4096
		if linear {
			most = 2 * times * bytes
		}
		if moreBytes > most {
			t.Errorf("of %d, a change takes %d bytes, of %d times as many %d", n, bytes, times, moreBytes)
		}
		if bound := 3*times*took + 2*time.Millisecond; longer > bound {
			t.Errorf("of %d, a change takes %s, of %d times as many %s", n, took, times, longer)
		}
	}
	for name, changes := range own {
		t.Run(name, func(t *testing.T) {
			check(t, func(n int) (uint64, time.Duration) {
				r, _ := Adopt(Config{}, Tables{}, Change{Set: costFrontends(200, 1, 0, 0, 3)})
				for _, c := range changes(2 * n) { // sets have grown to what they will need
					r.Commit(r.Plan(c))
				}
				return costOf(r, changes(n))
			}, true)
		})
	}
	for name, others := range beside {
		t.Run(name, func(t *testing.T) {
			check(t, func(n int) (uint64, time.Duration) {
				r, _ := Adopt(Config{}, Tables{}, Change{Set: others(n)})
				return costOf(r, comes(costFrontends(0, 1, 1, 1, 3)))
			}, false)
		})
	}
}
