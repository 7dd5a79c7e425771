package nft

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/model/costtest"
	"kube-vmap/nft/nfttest"
)

// costFrontends are the frontends of a Service at 10.96.0.i, with the given numbers of
// its parts.
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

// changing returns a function that plans and commits one of the changes, back and forth.
func changing(r *Ruleset, changes [2]Change) func() {
	i := 0
	return func() {
		r.Commit(r.Plan(changes[i%2]))
		i++
	}
}

func TestPlanCostIsLinear(t *testing.T) {
	comes := func(frontends []model.Frontend) [2]Change {
		var removed []model.Match
		for _, f := range frontends {
			removed = append(removed, f.Match)
		}
		return [2]Change{{Set: frontends}, {Removed: removed}}
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
	for name, changes := range own {
		t.Run(name, func(t *testing.T) {
			costtest.Check(t, func(n int) func() {
				r, _ := Adopt(Config{}, Tables{}, Change{Set: costFrontends(200, 1, 0, 0, 3)})
				for _, c := range changes(2 * n) { // sets have grown to their final size
					r.Commit(r.Plan(c))
				}
				return changing(r, changes(n))
			}, true)
		})
	}
	for name, others := range map[string]func(n int) []model.Frontend{
		"other Services": func(n int) (all []model.Frontend) {
			for i := range n {
				all = append(all, costFrontends(i+1, 1, 0, 0, 3)...)
			}
			return all
		},
		"source ranges of others": func(n int) []model.Frontend { return costFrontends(1, 1, 1, n, 3) },
		"endpoints of others":     func(n int) []model.Frontend { return costFrontends(1, 1, 0, 0, n) },
	} {
		t.Run(name, func(t *testing.T) {
			costtest.Check(t, func(n int) func() {
				r, _ := Adopt(Config{}, Tables{}, Change{Set: others(n)})
				return changing(r, comes(costFrontends(0, 1, 1, 1, 3)))
			}, false)
		})
	}
}

// sampleConfig detects pods in both families, and has every option.
var sampleConfig = Config{
	MasqueradeMark:   DefaultMasqueradeMark,
	DropInvalid:      true,
	CountConnections: true,
	PassiveHealth:    true,
	Pods: [...]netip.Prefix{
		model.IPv4: netip.MustParsePrefix("10.244.0.0/16"),
		model.IPv6: netip.MustParsePrefix("fd00:10:244::/56"),
	},
	PingTo: [...]netip.Addr{model.IPv4: netip.MustParseAddr("192.0.2.1"), model.IPv6: netip.MustParseAddr("2001:db8::1")},
}

// sample is the change from nothing to n Services of every kind.
func sample(n int) Change {
	return Change{Set: nfttest.Frontends(n), ServiceCIDRs: &nfttest.ServiceCIDRs, NodeAddrs: &nfttest.NodeAddrs}
}

// load is the batch of a first load of n Services, and the resulting state.
func load(n int) (*Ruleset, Batch) { return Adopt(sampleConfig, Tables{}, sample(n)) }
