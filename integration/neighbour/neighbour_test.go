package neighbour

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"kube-vmap/integration/lab/labtest"
)

// TestNeighbourMeasuresOtherTransactions loads a set of many ranges with nft, which holds
// the lock for long.
func TestNeighbourMeasuresOtherTransactions(t *testing.T) {
	h := labtest.Alone(t)
	n, err := Start(h)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	text.WriteString("table ip busy {\nset ranges {\ntype ipv4_addr . inet_service\nflags interval\nelements = {")
	const ranges = 20_000
	for i := range ranges {
		fmt.Fprintf(&text, "10.%d.%d.0-10.%d.%d.200 . 80,\n", i>>8, i&255, i>>8, i&255)
	}
	text.WriteString("}\n}\n}\n")
	load := h.Command(t.Context(), "nft", "-f", "-")
	load.Stdin = &text
	var wrote bytes.Buffer
	load.Stderr = &wrote
	n.Take()
	if err := load.Run(); err != nil {
		t.Fatalf("%v\n%s", err, wrote.String())
	}
	if longest := n.Take(); longest < 5*time.Millisecond {
		t.Errorf("a transaction of %d ranges held the lock for %s", ranges, longest)
	} else {
		t.Logf("a transaction of %d ranges held the lock for %s", ranges, longest)
	}
	if err := n.Stop(); err != nil {
		t.Error(err)
	}
}
