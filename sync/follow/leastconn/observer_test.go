package leastconn

import (
	"errors"
	"net/netip"
	"testing"

	"kube-vmap/model"
)

// observe observes, and reports errors.
func observe(t *testing.T, o *observer, wantKnown bool) map[endpoint]count {
	t.Helper()
	counts, known, err := o.observe()
	if err != nil || known != wantKnown {
		t.Fatalf("arrivals are known: %t, %v, want %t", known, err, wantKnown)
	}
	return counts
}

func TestObserverCountsActiveAndNewConnections(t *testing.T) {
	for _, addr := range []string{"10.244.0.1:80", "[fd00:10:244::1]:80"} {
		for _, p := range model.Protocols {
			k, at := &tracking{}, endpoint{p, netip.MustParseAddrPort(addr)}
			other := endpoint{p, netip.AddrPortFrom(at.addr.Addr(), 81)}
			o := &observer{tracking: k}
			k.open(p, at.addr, 10)
			observe(t, o, false)
			k.open(p, at.addr, 8)
			for i := range 3 { // closed in between
				k.entries[10+i].Open = false
			}
			k.open(p, other.addr, 2)
			counts := observe(t, o, true)
			if counts[at] != (count{15, 8}) || counts[other] != (count{2, 2}) || len(counts) != 2 {
				t.Errorf("%s, %s: counts %v", addr, p, counts)
			}
			k.entries = k.entries[5:] // five have ended
			if counts := observe(t, o, true); counts[at] != (count{10, 0}) {
				t.Errorf("%s, %s: counts %v after some ended", addr, p, counts)
			}
			k.err = errors.New("interrupted")
			if _, _, err := o.observe(); !errors.Is(err, k.err) {
				t.Errorf("error %v", err)
			}
			o.forget()
			k.err = nil
			observe(t, o, false)
		}
	}
}

func TestObserverRemembersASample(t *testing.T) {
	k, at := &tracking{}, endpoint{model.TCP, netip.MustParseAddrPort("10.244.0.1:80")}
	o := &observer{tracking: k}
	k.open(model.TCP, at.addr, 10*maxSample)
	observe(t, o, false)
	if n := len(o.seen); n > maxSample || n < maxSample/4 {
		t.Errorf("%d of %d entries are remembered, want at most %d", n, len(k.entries), maxSample)
	}
	k.open(model.TCP, at.addr, maxSample)
	counts := observe(t, o, true)
	if n := counts[at].arrived; n < maxSample*9/10 || n > maxSample*11/10 {
		t.Errorf("%d entries are new, want about %d", n, maxSample)
	}
	if n := counts[at].active; n != 11*maxSample {
		t.Errorf("%d entries are active, want %d", n, 11*maxSample)
	}
	k.entries = k.entries[:100]
	observe(t, o, true)
	observe(t, o, false) // all are remembered again
	k.open(model.TCP, at.addr, 7)
	if counts := observe(t, o, true); counts[at] != (count{107, 7}) {
		t.Errorf("counts of few entries: %v", counts)
	}
}
