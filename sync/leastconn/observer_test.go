package leastconn

import (
	"errors"
	"net/netip"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// entries is connection tracking with a number of entries of each endpoint.
type entries struct {
	list []conntrack.Entry
	err  error
}

func (e *entries) EachTranslated(begin func(), fn func(conntrack.Entry)) error {
	begin()
	for _, each := range e.list {
		fn(each)
	}
	return e.err
}

// add adds n entries of an endpoint.
func (e *entries) add(to endpoint, n int, open bool) {
	for range n {
		id := uint32(len(e.list)+1) * 0x9e3779b1 // spread evenly, as the kernel's are
		e.list = append(e.list, conntrack.Entry{Protocol: to.protocol, Reply: to.addr, ID: id, Open: open})
	}
}

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
			e, at := &entries{}, endpoint{p, netip.MustParseAddrPort(addr)}
			other := endpoint{p, netip.AddrPortFrom(at.addr.Addr(), 81)}
			o := &observer{tracking: e}
			e.add(at, 10, true)
			observe(t, o, false)
			e.add(at, 5, true)
			e.add(at, 3, false) // opened and closed in between
			e.add(other, 2, true)
			counts := observe(t, o, true)
			if counts[at] != (count{15, 8}) || counts[other] != (count{2, 2}) || len(counts) != 2 {
				t.Errorf("%s, %s: counts %v", addr, p, counts)
			}
			e.list = e.list[5:] // five have ended
			if counts := observe(t, o, true); counts[at] != (count{10, 0}) {
				t.Errorf("%s, %s: counts %v after some ended", addr, p, counts)
			}
			e.err = errors.New("interrupted")
			if _, _, err := o.observe(); !errors.Is(err, e.err) {
				t.Errorf("error %v", err)
			}
			o.forget()
			e.err = nil
			observe(t, o, false)
		}
	}
}

func TestObserverRemembersASample(t *testing.T) {
	e, at := &entries{}, endpoint{model.TCP, netip.MustParseAddrPort("10.244.0.1:80")}
	o := &observer{tracking: e}
	e.add(at, 10*maxSample, true)
	observe(t, o, false)
	if n := len(o.seen); n > maxSample || n < maxSample/4 {
		t.Errorf("%d of %d entries are remembered, want at most %d", n, len(e.list), maxSample)
	}
	e.add(at, maxSample, true)
	counts := observe(t, o, true)
	if n := counts[at].arrived; n < maxSample*9/10 || n > maxSample*11/10 {
		t.Errorf("%d entries are new, want about %d", n, maxSample)
	}
	if n := counts[at].active; n != 11*maxSample {
		t.Errorf("%d entries are active, want %d", n, 11*maxSample)
	}
	e.list = e.list[:100]
	observe(t, o, true)
	observe(t, o, false) // all are remembered again
	e.add(at, 7, true)
	if counts := observe(t, o, true); counts[at] != (count{107, 7}) {
		t.Errorf("counts of few entries: %v", counts)
	}
}
