package forward

import (
	"fmt"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestPacketsOfNodesMustNotBeForwarded has two nodes that take each other for the
// endpoint's, as may be while a change has not reached both. A packet is forwarded until its
// TTL ends, unless nodes serve what comes from a node themselves. Kernels without a check of
// the TTL in fwd would never end: a quota does it here.
func TestPacketsOfNodesMustNotBeForwarded(t *testing.T) {
	for _, trusting := range []bool{true, false} {
		s := newForwarding(t, options{trusting: trusting})
		s.watch()
		first, second := s.lab.Node, s.lab.Remote
		for _, n := range []*lab.Node{first, second} {
			nft(t, n.Host, "table netdev guard { chain egress {"+
				"type filter hook egress devices = { eth0 } priority -1; quota over 500 kbytes drop; }; }")
		}
		s.pick([]*lab.Node{first}, s.lab.RemotePods...)
		s.pick([]*lab.Node{second}, s.lab.ThirdPods...)
		for _, f := range model.Families {
			nft(t, second.Host, fmt.Sprintf("flush map netdev forward nodes-%[1]s; add element netdev forward nodes-%[1]s { 3 : %[2]s }",
				families[f].Name, first.Addr(f)))
		}
		for _, w := range daemon.Transports() {
			timeout := patience
			if trusting {
				timeout = short
			}
			a := s.ask(t, w, s.lab.Outside.FreshPort(), timeout)
			there, back := count(t, first, "forwarded"), count(t, second, "forwarded")
			t.Logf("forwarding again %t: %s: %s, forwarded %d times by node-1, %d times by node-2", trusting, w, a, there, back)
			if answered := a.Outcome == lab.Answered; answered == trusting || (back > 0) != trusting {
				t.Errorf("forwarding again %t: %s: %s, forwarded %d times by node-1, %d times by node-2", trusting, w, a, there, back)
			}
		}
	}
}
