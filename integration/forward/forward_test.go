package forward

import (
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
)

// TestClientAddressIsKeptThroughEveryNode asks through each node: the endpoint sees the
// client, and a connection leads to the same node whichever node it passes.
func TestClientAddressIsKeptThroughEveryNode(t *testing.T) {
	s := newForwarding(t, options{})
	for _, w := range daemon.Transports() {
		t.Run(w.String(), func(t *testing.T) {
			nodes := map[byte]int{}
			for range 20 {
				port := s.lab.Outside.FreshPort()
				by := map[byte]bool{}
				for _, n := range s.lab.Nodes() {
					s.routeTo(n)
					s.forget(t)
					a := s.ask(t, w, port, patience)
					if a.Outcome != lab.Answered || a.Seen != a.Local {
						t.Fatalf("through %s: %s, from %s", n, a, a.Local)
					}
					by[a.By[0]] = true
					nodes[a.By[0]]++
				}
				if len(by) != 1 {
					t.Errorf("port %d: another node serves it, depending on the node it passes", port)
				}
			}
			if len(nodes) != 2 {
				t.Errorf("%v: only one node serves", nodes)
			}
		})
	}
}

// TestReplyDoesNotPassTheFirstNode counts packets and tracked connections, and compares with
// Cluster policy.
func TestReplyDoesNotPassTheFirstNode(t *testing.T) {
	for _, forwarding := range []bool{true, false} {
		var s *scene
		if forwarding {
			s = newForwarding(t, options{})
		} else {
			s = newScene(t, false)
		}
		s.watch()
		daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
			a := s.ask(t, w, s.lab.Outside.FreshPort(), patience)
			if a.Outcome != lab.Answered || (a.Seen == a.Local) != forwarding {
				t.Errorf("%s, from %s", a, a.Local)
			}
		})
		if tracked := s.tracked(s.lab.Node); (tracked == 0) != forwarding {
			t.Errorf("forwarding %t: node-1 tracks %d connections to the frontend", forwarding, tracked)
		}
		forwarded, replies := count(t, s.lab.Node, "forwarded"), count(t, s.lab.Node, "replies")
		t.Logf("forwarding %t: %s has sent %d packets to the frontend's address and %d from it", forwarding, s.lab.Node, forwarded, replies)
		if (forwarded > 0) != forwarding || (replies > 0) == forwarding {
			t.Errorf("forwarding %t: %s has sent %d packets to the frontend's address and %d from it", forwarding, s.lab.Node, forwarded, replies)
		}
	}
}

// TestConnectionsSurviveAnotherRoute changes the node that gets the packets of connections:
// they continue. Under Cluster policy the first node has their state, and they break.
func TestConnectionsSurviveAnotherRoute(t *testing.T) {
	for _, forwarding := range []bool{true, false} {
		var s *scene
		timeout := patience
		if forwarding {
			s = newForwarding(t, options{})
		} else {
			s, timeout = newScene(t, false), short
		}
		for _, w := range daemon.Transports() {
			s.routeTo(s.lab.Node)
			broken := 0
			for range 8 {
				flow, by := s.connect(t, w)
				for _, n := range []*lab.Node{s.lab.Remote, s.lab.Third, s.lab.Node} {
					s.routeTo(n)
					if a := again(t, flow, timeout); a.Outcome != lab.Answered || a.By != by {
						broken++
						break
					}
				}
				s.routeTo(s.lab.Node)
			}
			t.Logf("forwarding %t: %d of 8 connections of %s are broken", forwarding, broken, w)
			if (broken > 0) == forwarding {
				t.Errorf("forwarding %t: %d of 8 connections of %s are broken", forwarding, broken, w)
			}
		}
	}
}

// TestStrictReversePathFilter has nodes that drop packets from addresses whose route
// leads elsewhere.
func TestStrictReversePathFilter(t *testing.T) {
	s := newForwarding(t, options{})
	for _, n := range s.lab.Nodes() {
		s.set(n.Host, "ipv4/conf/eth0/rp_filter", "1")
	}
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		if a := s.ask(t, w, s.lab.Outside.FreshPort(), patience); a.Outcome != lab.Answered || a.Seen != a.Local {
			t.Errorf("%s, from %s", a, a.Local)
		}
	})
}
