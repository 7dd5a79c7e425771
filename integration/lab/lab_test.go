package lab_test

import (
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

const (
	port = 8080
	// patience is the timeout for what must come.
	patience = 30 * time.Second
)

func serveAll(t testing.TB, hosts ...*lab.Host) {
	t.Helper()
	for _, h := range hosts {
		if err := h.ServeAll(port); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEveryHostReachesEveryOther(t *testing.T) {
	for name, bridge := range map[string]bool{"links": false, "bridge": true} {
		t.Run(name, func(t *testing.T) {
			l := labtest.New(t, lab.Options{Pods: 3, RemotePods: 2, ThirdPods: 1, Bridge: bridge})
			serveAll(t, l.Hosts()...)
			daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
				for _, from := range l.Hosts() {
					for _, to := range l.Hosts() {
						reaches(t, l, w, from, to)
					}
				}
			})
		})
	}
}

func reaches(t *testing.T, l *lab.Lab, w daemon.Transport, from, to *lab.Host) {
	t.Helper()
	a, err := from.Ask(w.Protocol, to.AddrPort(w.Family, port), patience)
	if err != nil || a.Outcome != lab.Answered || a.By != to.Name || a.Seen != a.Local {
		t.Errorf("%s to %s: %s, %v after %s, from %s", from, to, a, err, a.Took, a.Local)
	}
	if want := source(l, w.Family, from, to); a.Seen.Addr() != want {
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
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		flow, err := l.Outside.Flow(w.Protocol, netip.AddrPort{}, l.Pods[0].AddrPort(w.Family, port))
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
