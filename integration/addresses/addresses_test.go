package addresses

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-vmap/model"
)

func TestAddedAndRemovedAddressesAreSent(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	l, _ := m.listen()
	l.expect() // not those of lo

	lo, eth0 := m.link("lo"), m.addLink("eth0")
	m.add(eth0, "192.0.2.1/24")
	l.expect("192.0.2.1/24")
	m.add(eth0, "2001:db8::1/64")
	l.expect("192.0.2.1/24", "2001:db8::1/64")
	m.add(eth0, "fe80::1/64")
	l.expect("192.0.2.1/24", "2001:db8::1/64", "fe80::1/64")

	m.add(lo, "198.51.100.1/32", "2001:db8:1::1/128", "127.0.0.2/32")
	l.expect("192.0.2.1/24", "198.51.100.1/32", "2001:db8::1/64", "2001:db8:1::1/128", "fe80::1/64")
	m.remove(lo, "198.51.100.1/32", "2001:db8:1::1/128")
	l.expect("192.0.2.1/24", "2001:db8::1/64", "fe80::1/64")

	eth1 := m.addLink("eth1") // an address on two interfaces is sent once, until both are gone
	m.add(eth1, "192.0.2.1/24", "fe80::1/64", "203.0.113.1/32 peer 203.0.113.2/32", "2001:db8:2::1/128 peer 2001:db8:2::2/128")
	l.expect("192.0.2.1/24", "203.0.113.1/32", "2001:db8::1/64", "2001:db8:2::1/128", "fe80::1/64")
	m.remove(eth0, "192.0.2.1/24")
	m.must(m.nl.LinkDel(eth0))
	l.expect("192.0.2.1/24", "203.0.113.1/32", "2001:db8:2::1/128", "fe80::1/64")

	m.must(m.nl.LinkSetDown(eth1)) // removes IPv6 addresses, but not IPv4 ones
	l.expect("192.0.2.1/24", "203.0.113.1/32")
	m.must(m.nl.LinkDel(eth1))
	l.expect()
	if l.log.String() != "" {
		t.Errorf("log:\n%s", l.log)
	}
}

func TestDeprecatedAddressesAreUsable(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	eth0 := m.addLink("eth0")
	for _, text := range []string{"192.0.2.1/24", "2001:db8::1/64"} {
		a := address(text)
		a.ValidLft, a.PreferedLft = 3600, 0 // seconds
		m.must(m.nl.AddrAdd(eth0, a))
	}
	l, _ := m.listen()
	l.expect("192.0.2.1/24", "2001:db8::1/64")
	m.remove(eth0, "192.0.2.1/24", "2001:db8::1/64")
	l.expect()
}

// TestAddressIsSentWhenBindable uses a link with duplicate address detection.
func TestAddressIsSentWhenBindable(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for key, value := range map[string]string{
		"ipv6/conf/all/accept_dad": "1", "ipv6/conf/default/accept_dad": "1",
		"ipv6/conf/default/dad_transmits": "2", "ipv6/conf/default/router_solicitation_delay": "0",
	} {
		m.set(key, value)
	}
	eth0 := m.addLink("eth0")
	far := m.link("eth0-far")
	m.set("ipv6/neigh/eth0/retrans_time_ms", "2000")
	m.set("ipv6/neigh/eth0-far/retrans_time_ms", "2000")
	l, _ := m.listen()
	l.expect()

	m.add(eth0, "2001:db8::1/64", "192.0.2.1/24")
	l.expect("192.0.2.1/24") // sent while the other is tentative
	if canListen(m, "2001:db8::1") {
		t.Fatal("no duplicate address detection, so the test is void")
	}
	l.expect("192.0.2.1/24", "2001:db8::1/64")
	if !canListen(m, "2001:db8::1") {
		t.Error("the address was sent too early")
	}

	m.add(far, "2001:db8::1/64", "192.0.2.2/24") // the first is a duplicate of the other end's
	l.expect("192.0.2.1/24", "192.0.2.2/24", "2001:db8::1/64")
	m.remove(eth0, "2001:db8::1/64")
	l.expect("192.0.2.1/24", "192.0.2.2/24")
	if canListen(m, "2001:db8::1") {
		t.Error("the duplicate was not sent but can be used")
	}
}

// canListen reports whether a socket of the machine can have the address.
func canListen(m *machine, addr string) bool {
	return m.host.Do(func() error {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 0)))
		if err != nil {
			return err
		}
		return c.Close()
	}) == nil
}

// many returns so many addresses of each family.
func many(n int) (prefixes []string) {
	for _, f := range model.Families {
		for i := range n {
			text := [...]string{fmt.Sprintf("10.1.%d.%d", i/200, 1+i%200), fmt.Sprintf("2001:db8::1:%04x", 0x1000+i)}[f]
			prefixes = append(prefixes, text+[...]string{"/32", "/128"}[f])
		}
	}
	return prefixes
}

func TestBurstOfChangesIsBatched(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	eth0 := m.addLink("eth0")
	l, _ := m.listen()
	l.expect()
	want := many(100)
	prefixes := want
	added, began, pauses := make(chan struct{}), time.Now(), 0
	go func() {
		defer close(added)
		pace := time.NewTicker(time.Millisecond) // slower than they can be listed
		defer pace.Stop()
		for last := began; len(prefixes) > 0; prefixes = prefixes[1:] {
			<-pace.C
			now := time.Now()
			if now.Sub(last) > 10*time.Millisecond { // the machine is busy: a list may come between
				pauses++
			}
			last = now
			if err := m.nl.AddrAdd(eth0, address(prefixes[0])); err != nil {
				t.Error(err)
			}
		}
	}()
	l.expect(want...)
	<-added
	const longest = 200 * time.Millisecond // how long changes are waited for
	if most := 3 + pauses + int(time.Since(began)/longest); l.n > most {
		t.Errorf("%d addresses were sent in %d lists, want at most %d", len(want), l.n, most)
	}
}

// TestSocketOverflowLosesNothing makes far more changes than the socket's 200 KiB can hold
// while it is not read.
func TestSocketOverflowLosesNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	eth0 := m.addLink("eth0")
	m.add(eth0, "192.0.2.1/32")
	l, _ := m.listen()
	l.expect("192.0.2.1/32")
	m.add(eth0, "192.0.2.2/32")
	prefixes := many(50)
	for range 20 {
		m.add(eth0, prefixes...)
		m.remove(eth0, prefixes...)
	}
	m.add(eth0, prefixes...)
	m.remove(eth0, "192.0.2.1/32")
	want := slices.Insert(slices.Clone(prefixes), 50, "192.0.2.2/32")
	l.expect(want...)
	if l.log.String() != "" {
		t.Errorf("log:\n%s", l.log)
	}
}

func TestNoChangeIsMissedAtStart(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	eth0 := m.addLink("eth0")
	prefixes := many(20)
	for i := range prefixes {
		started, added := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(added)
			close(started)
			if err := m.nl.AddrAdd(eth0, address(prefixes[i])); err != nil {
				t.Error(err)
			}
		}()
		<-started
		l, end := m.listen()
		l.expect(prefixes[:i+1]...)
		<-added // before the socket is closed
		end()
	}
}
