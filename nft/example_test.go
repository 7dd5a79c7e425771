package nft_test

import (
	"fmt"
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// frontend is the ClusterIP of Service shop/web with these endpoints.
func frontend(endpoints ...string) model.Frontend {
	match := model.Match{Addr: netip.MustParseAddr("10.96.0.10"), Protocol: model.TCP, Port: 80}
	pool := &model.Pool{Key: match}
	for _, e := range endpoints {
		pool.Cluster = append(pool.Cluster, netip.MustParseAddrPort(e))
	}
	name := model.ServiceName{Namespace: "shop", Name: "web"}
	return model.Frontend{
		Match: match, Pool: pool, Service: model.ServicePortName{ServiceName: name, Port: "http", Protocol: model.TCP},
	}
}

// A change is planned, its batch is given to the kernel, and only then the plan is
// committed.
func ExampleRuleset_Plan() {
	kernel := func(nft.Batch) error { return nil } // see kube-vmap/nft/kernel

	config := nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark}
	first := nft.Change{Set: []model.Frontend{frontend("10.244.1.2:8080", "10.244.2.3:8080")}}
	rules, load := nft.Adopt(config, nft.Tables{}, first)
	if err := kernel(load); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("first load:", load.Counts().Added, "elements")

	plan := rules.Plan(nft.Change{Set: []model.Frontend{frontend("10.244.1.2:8080", "10.244.7.7:8080")}})
	if err := kernel(plan.Batch); err != nil {
		fmt.Println(err) // the state is as before
		return
	}
	rules.Commit(plan)
	fmt.Print(plan.Batch)
	// Output:
	// first load: 4 elements
	// delete element ip kube-vmap endpoints-1 { 10.96.0.10 . tcp . 80 }
	// add element ip kube-vmap endpoints-1 { 10.96.0.10 . tcp . 80 : 10.244.7.7 . 8080 }
}
