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
	patience = 5 * time.Second
	// soon is the time within which a port is refused, far from any retransmission.
	soon = 900 * time.Millisecond // a connect that misses an ICMP error takes a second
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
	eachLink(t, func(t *testing.T, bridge bool) {
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

// eachLink runs a test with pods that have links of their own, and with pods on a
// bridge.
func eachLink(t *testing.T, test func(t *testing.T, bridge bool)) {
	t.Run("links", func(t *testing.T) { test(t, false) })
	t.Run("bridge", func(t *testing.T) { test(t, true) })
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

func TestClosedPortIsRefusedImmediately(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 2})
	serveAll(t, l.Hosts()...) // without a listener, SCTP is not refused with an ABORT
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		for range 20 { // more than the kernel's default rate limit for ICMP allows
			a := must(t, l.Pods[0].Host, p, l.Pods[1].AddrPort(f, port+1), patience)
			if a.Outcome != lab.Refused || a.Took > soon {
				t.Fatalf("%s after %s", a, a.Took)
			}
		}
	})
}

func TestClosingAServerLeavesOthersOpen(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	pod := l.Pods[0]
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		var servers []*lab.Server
		for _, port := range []uint16{port, port + 1} {
			s, err := pod.Serve(p, port)
			if err != nil {
				t.Fatal(err)
			}
			servers = append(servers, s)
		}
		for range 2 {
			if err := servers[0].Close(); err != nil {
				t.Fatal(err)
			}
		}
		if a := must(t, l.Outside, p, pod.AddrPort(f, port), patience); a.Outcome != lab.Refused {
			t.Errorf("closed server: %s", a)
		}
		if a := must(t, l.Outside, p, pod.AddrPort(f, port+1), patience); a.Outcome != lab.Answered {
			t.Errorf("other server: %s", a)
		}
		if err := servers[1].Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWithoutSCTPListenerTheHostIsUnreachable(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 2})
	for _, f := range model.Families {
		a := must(t, l.Pods[0].Host, model.SCTP, l.Pods[1].AddrPort(f, port), patience)
		if a.Outcome != lab.Unreachable || a.Took > soon {
			t.Errorf("%s: %s after %s", f, a, a.Took)
		}
	}
}

func TestUnusedAddressTimesOut(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		a := must(t, l.Pods[0].Host, p, netip.AddrPortFrom(lab.ServiceRanges[f].Addr().Next(), port), silence)
		if a.Outcome != lab.TimedOut || a.Took < silence {
			t.Errorf("%s after %s", a, a.Took)
		}
	})
}

func TestNoRouteIsUnreachable(t *testing.T) {
	l := labtest.New(t, lab.Options{})
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		to := map[model.Family]string{model.IPv4: "203.0.113.1", model.IPv6: "2001:db8:ffff::1"}[f]
		a := must(t, l.Outside, p, netip.AddrPortFrom(netip.MustParseAddr(to), port), patience)
		if a.Outcome != lab.Unreachable || a.Took > soon {
			t.Errorf("%s after %s", a, a.Took)
		}
	})
}

func TestServeAtAnswersAtOneAddressOnly(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	serveAll(t, l.Outside) // an SCTP listener refuses other ports
	more := [2]netip.Addr{netip.MustParseAddr("192.0.2.50"), netip.MustParseAddr("2001:db8:2::50")}
	for _, a := range more {
		if err := l.Outside.AddAddress(a); err != nil {
			t.Fatal(err)
		}
	}
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		at := netip.AddrPortFrom(more[f], port+1)
		s, err := l.Outside.ServeAt(p, at)
		if err != nil {
			t.Fatal(err)
		}
		if a := must(t, l.Pods[0].Host, p, at, patience); a.Outcome != lab.Answered || a.By != "outside" {
			t.Errorf("%s: %s", at, a)
		}
		if a := must(t, l.Pods[0].Host, p, l.Outside.AddrPort(f, port+1), patience); a.Outcome != lab.Refused {
			t.Errorf("the host's own address: %s", a)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if a := must(t, l.Pods[0].Host, p, at, patience); a.Outcome != lab.Refused {
			t.Errorf("%s, closed: %s", at, a)
		}
	})
}
