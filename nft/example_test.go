package nft_test

import (
	"fmt"
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// A Service begins with two endpoints, and one is replaced: one element is deleted and one is added,
// whatever else the tables have.
func Example() {
	frontend := func(endpoints ...string) model.Frontend {
		at := model.Match{Addr: netip.MustParseAddr("10.96.0.10"), Protocol: model.UDP, Port: 53}
		pool := &model.Pool{Key: at}
		for _, e := range endpoints {
			pool.Cluster = append(pool.Cluster, netip.MustParseAddrPort(e))
		}
		return model.Frontend{Match: at, Verdict: model.VerdictBalance, Pool: pool}
	}
	first := nft.Change{Set: []model.Frontend{frontend("10.244.0.7:53", "10.244.1.9:53")}}
	rules, _ := nft.Adopt(nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark}, nft.Tables{}, first)

	plan := rules.Plan(nft.Change{Set: []model.Frontend{frontend("10.244.0.7:53", "10.244.2.4:53")}})
	fmt.Print(plan.Batch)
	rules.Commit(plan) // once the kernel has accepted the batch
	// Output:
	// delete element ip kube-vmap endpoints-1 { 10.96.0.10 . udp . 53 }
	// add element ip kube-vmap endpoints-1 { 10.96.0.10 . udp . 53 : 10.244.2.4 . 53 }
}
