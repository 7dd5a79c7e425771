package lab_test

import (
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

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
		if err := errors.Join(flow.Close(), flow.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestFlowEndsWithItsServer(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		server, err := l.Pods[0].Serve(p, port)
		if err != nil {
			t.Fatal(err)
		}
		flow, err := l.Outside.Flow(p, netip.AddrPort{}, l.Pods[0].AddrPort(f, port))
		if err != nil {
			t.Fatal(err)
		}
		if a, err := flow.Ask(patience); err != nil || a.Outcome != lab.Answered {
			t.Fatal(a, err)
		}
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		want := lab.Reset
		if p == model.UDP {
			want = lab.Refused
		}
		if a, err := flow.Ask(patience); err != nil || a.Outcome != want {
			t.Errorf("%s, %v, want %s", a, err, want)
		}
	})
}

// TestConcurrentClientsDoNotInterfere runs clients of the same namespace and server
// concurrently, some of them refused: raw sockets, as for SCTP, receive each other's
// packets and errors.
func TestConcurrentClientsDoNotInterfere(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	translate(t, l.Node, l.Pods[0].Host)
	serveAll(t, l.Pods[0].Host)
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		var group errgroup.Group
		for i := range 4 {
			to := netip.AddrPortFrom(virtual[f], port+uint16(i%2))
			group.Go(func() error {
				tally, err := l.Outside.Burst(lab.Burst{Protocol: p, To: to, Count: 100, Workers: 2, Timeout: patience})
				answered, wrong := tally.Answered["pod-1"], tally.Refused
				if to.Port() == refused {
					answered, wrong = wrong, answered
				}
				if answered != 100 || wrong != 0 {
					t.Errorf("%s: %s", to, tally)
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestBurstCounts(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	serveAll(t, l.Pods[0].Host)
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		tally, err := l.Outside.Burst(lab.Burst{
			Protocol: p, To: l.Pods[0].AddrPort(f, port), Count: 1000, Workers: 3, Timeout: patience,
		})
		if err != nil || tally.Answered["pod-1"] != 1000 || len(tally.Latencies) != 1000 || tally.Took == 0 {
			t.Errorf("%s, %v", tally, err)
		}
	})
}
