package lab_test

import (
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

const (
	port = 8080
	// patience is the timeout for what must come.
	patience = 30 * time.Second
	// silence is how long to wait for an answer that must not come.
	silence = 100 * time.Millisecond
)

// forAll runs a test for every protocol and family.
func forAll(t *testing.T, test func(*testing.T, model.Protocol, model.Family)) {
	for _, p := range model.Protocols {
		for _, f := range model.Families {
			t.Run(p.String()+"/"+f.String(), func(t *testing.T) { test(t, p, f) })
		}
	}
}

func serveAll(t testing.TB, hosts ...*lab.Host) {
	t.Helper()
	for _, h := range hosts {
		if err := h.ServeAll(port); err != nil {
			t.Fatal(err)
		}
	}
}

// must asks and returns the answer; an error ends the test.
func must(t *testing.T, h *lab.Host, p model.Protocol, to netip.AddrPort, timeout time.Duration) lab.Answer {
	t.Helper()
	a, err := h.Ask(p, to, timeout)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestEveryHostReachesEveryOther(t *testing.T) {
	for name, bridge := range map[string]bool{"links": false, "bridge": true} {
		t.Run(name, func(t *testing.T) {
			l := labtest.New(t, lab.Options{Pods: 3, RemotePods: 2, ThirdPods: 1, Bridge: bridge})
			serveAll(t, l.Hosts()...)
			forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
				for _, from := range l.Hosts() {
					for _, to := range l.Hosts() {
						reaches(t, l, p, f, from, to)
					}
				}
			})
		})
	}
}

func reaches(t *testing.T, l *lab.Lab, p model.Protocol, f model.Family, from, to *lab.Host) {
	t.Helper()
	a := must(t, from, p, to.AddrPort(f, port), patience)
	if a.Outcome != lab.Answered || a.By != to.Name || a.Seen != a.Local {
		t.Errorf("%s to %s: %s after %s, from %s", from, to, a, a.Took, a.Local)
	}
	if want := source(l, f, from, to); a.Seen.Addr() != want {
		t.Errorf("%s to %s: server saw %s, want %s", from, to, a.Seen, want)
	}
}

// source returns the address that a host uses towards another. Nodes have another one
// for their pods.
func source(l *lab.Lab, f model.Family, from, to *lab.Host) netip.Addr {
	for _, n := range l.Nodes() {
		if from == n.Host && n.PodRange(f).Contains(to.Addr(f)) {
			return n.Gateway(f)
		}
	}
	return from.Addr(f)
}

// TestFlowKeepsItsSource fails if a flow were a new connection for each question: tests of
// connections that last would prove nothing.
func TestFlowKeepsItsSource(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	serveAll(t, l.Pods[0].Host)
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		flow, err := l.Outside.Flow(p, netip.AddrPort{}, l.Pods[0].AddrPort(f, port))
		if err != nil {
			t.Fatal(err)
		}
		first, err := flow.Ask(patience)
		if err != nil || first.Outcome != lab.Answered {
			t.Fatal(first, err)
		}
		for range 3 {
			if next, err := flow.Ask(patience); err != nil || next.Seen != first.Seen {
				t.Errorf("first %s, then %s, %v", first, next, err)
			}
		}
	})
}

// Packets between pods of a node bypass its routing, but pass its rules.
func TestBridgedPacketsPassIPHooks(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 2, Bridge: true})
	serveAll(t, l.Pods[1].Host)
	const table = "table inet firewall { chain forward { type filter hook forward priority 0; iifname " +
		lab.BridgeName + " th dport 8080 drop; }; }"
	if out, err := l.Node.Command(t.Context(), "nft", table).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		a := must(t, l.Pods[0].Host, p, l.Pods[1].AddrPort(f, port), silence)
		if a.Outcome != lab.TimedOut {
			t.Error(a)
		}
	})
}
