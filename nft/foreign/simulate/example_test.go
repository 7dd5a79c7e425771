package simulate

import (
	"fmt"

	"github.com/google/nftables/expr"
)

// A packet to a Service is translated by our table, and another program's table drops it.
func ExampleRun() {
	n := node() // what the kernel of a node holds, with an empty table of ours
	n.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -101, to(endpoint))
	n.chain(otherTable, "forward", "filter", HookForward, 0, []any{&expr.Verdict{Kind: expr.VerdictDrop}})

	result, err := Run(n.sources(), sample, Link{})
	if err != nil {
		fmt.Println(err)
	}
	for _, o := range result.Outcomes {
		fmt.Printf("%.0f%%: %s by table %s, chain %s, on the way to %s\n", 100*o.Probability, o.Verdict, o.By.Table, o.By.Chain, o.Stopped)
	}
	// Output:
	// 100%: dropped by table inet firewall, chain forward, on the way to [10.244.1.2:8080]
}
