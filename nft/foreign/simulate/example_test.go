package simulate

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables/expr"
)

// A table of a load balancer translates packets, and the table of a firewall drops them.
func ExampleRun() {
	n := &fake{} // stands for the kernel: rules, routes and connections
	balancer, firewall := Table{"ip", "balancer"}, Table{"inet", "firewall"}
	n.chain(balancer, "dnat", "nat", HookPrerouting, -100, to(netip.MustParseAddrPort("10.0.0.2:8080")))
	n.chain(firewall, "forward", "filter", HookForward, 0, []any{&expr.Verdict{Kind: expr.VerdictDrop}})

	p := Packet{From: client, To: netip.MustParseAddrPort("198.51.100.1:80"), Protocol: 6}
	result, err := Run(Sources{Rules: n, Network: n, Connections: n}, p, Link{})
	if err != nil {
		fmt.Println(err)
	}
	for _, o := range result.Outcomes {
		fmt.Printf("%.0f%%: %s by %s, on the way to %s\n", 100*o.Probability, o.Verdict, o.By, o.Stopped)
	}
	// Output:
	// 100%: dropped by table inet firewall, chain forward, rule handle 1, on the way to [10.0.0.2:8080]
}
