package explain

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate"
)

// TestExplainWhileAnotherProgramCommits explains a packet with hundreds of destinations while another
// program commits all the time what has nothing to do with the packet.
func TestExplainWhileAnotherProgramCommits(t *testing.T) {
	r := newBareRig(t)
	var destinations []string
	for n := range 300 {
		destinations = append(destinations, fmt.Sprintf("%d : %s", n, r.servers[n%3].Addr(model.IPv4)))
	}
	r.nft("table ip other { chain p { type nat hook prerouting priority -100; ip daddr 10.96.0.10 dnat to numgen random mod 300 map { " +
		strings.Join(destinations, ", ") + " }; }; }; table ip busy { }")
	ctx, cancel := context.WithCancel(t.Context())
	writer := r.Node.Command(ctx, labtest.Path(t, "sh"), "-c", "while nft add chain ip busy c; do nft delete chain ip busy c; done")
	r.must(writer.Start())
	defer func() { cancel(); _ = writer.Wait() }()
	for range 3 {
		p := simulate.Packet{From: r.Pods[3].Addr(model.IPv4), FromPort: r.port(), To: serviceOf(model.IPv4), Protocol: model.TCP}
		if w := r.explain(p); isUncertain(w) || len(single(t, w).Endpoints) != 3 {
			t.Errorf("%s: %q, %+v", p, w.Doubts, w.Outcomes)
		}
	}
}
