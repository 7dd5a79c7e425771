package ruleset

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// patience is how long to wait for an answer, silence how long for the absence of one.
const (
	patience = 5 * time.Second
	silence  = 100 * time.Millisecond
)

// intact are two Services with one endpoint each, one on the node and one on
// another, that have every kind of address.
const intact = `
pods 10.244.0.0/16 fd00:10:244::/56
node-addresses 192.0.2.1 2001:db8:2::1
clusterip 10.96.0.11:80/tcp+udp+sctp      shop/near offpod hairpin=10.244.1.2 local=1 -> 10.244.1.2:8080
clusterip 10.96.0.12:80/tcp+udp+sctp      shop/far offpod affinity=3h -> 10.244.2.2:8080
nodeport 30011/tcp+udp+sctp shop/near policy=local
nodeport 30012/tcp+udp+sctp shop/far
loadbalancerip 203.0.113.11:80/tcp+udp+sctp       shop/near policy=local
externalip 203.0.113.12:80/tcp+udp+sctp       shop/far
`

// ways are the addresses of the two Services, by who is behind them.
var ways = []struct {
	name, behind string
	at           [2]netip.AddrPort
}{
	{"ClusterIP", "pod-1", addrPorts("10.96.0.11:80", "[fd00:10:96::11]:80")},
	{"ClusterIP", "remote-1", addrPorts("10.96.0.12:80", "[fd00:10:96::12]:80")},
	{"NodePort", "pod-1", addrPorts("192.0.2.1:30011", "[2001:db8:2::1]:30011")},
	{"NodePort", "remote-1", addrPorts("192.0.2.1:30012", "[2001:db8:2::1]:30012")},
	{"VIP", "pod-1", addrPorts("203.0.113.11:80", "[fd00:203:0:113::11]:80")},
	{"external IP", "remote-1", addrPorts("203.0.113.12:80", "[fd00:203:0:113::12]:80")},
}

func addrPorts(ip4, ip6 string) [2]netip.AddrPort {
	return [2]netip.AddrPort{netip.MustParseAddrPort(ip4), netip.MustParseAddrPort(ip6)}
}

// newIntact returns a lab in which both Services are served and every host has a route to
// them. By default veth leaves checksums to a device that does not exist, so that a wrong
// one is never detected; here all hosts compute and check them.
func newIntact(t *testing.T) *lab.Lab {
	t.Helper()
	l := labtest.New(t, lab.Options{Pods: 1, RemotePods: 1})
	for _, h := range l.Hosts() {
		if err := h.Do(sumInSoftware); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []*lab.Host{l.Pods[0].Host, l.RemotePods[0].Host} {
		if err := h.ServeAll(8080); err != nil {
			t.Fatal(err)
		}
	}
	vips := [...]string{"203.0.113.0/24", "fd00:203:0:113::/64"}
	for _, f := range model.Families {
		who := l.Outside.Addr(f)
		err := errors.Join(l.Outside.AddRoute(netip.MustParsePrefix(vips[f]), l.Node.Addr(f)),
			// Else the far endpoint answers by the short way.
			l.Remote.AddRoute(netip.PrefixFrom(who, who.BitLen()), l.Node.Addr(f)))
		if err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// node is the machine that the rules of a lab are on.
func node(t *testing.T, l *lab.Lab) *machine {
	t.Helper()
	m := &machine{t: t, host: l.Node.Host}
	m.kernel = m.open()
	return m
}

// The destination of the first packet of every flow is written twice in the same hook: to
// the ClusterIP, and to the endpoint. Neither may result in a wrong checksum.
func TestChecksumsByEveryAddress(t *testing.T) {
	t.Parallel()
	w, err := parseWorld(intact)
	if err != nil {
		t.Fatal(err)
	}
	l := newIntact(t)
	start(node(t, l), w)
	for _, f := range model.Families {
		for _, from := range []*lab.Host{l.Outside, l.Node.Host, l.Pods[0].Host} {
			askAllWays(t, from, f)
		}
	}
	checkUnchecked(t, l)
}

// askAllWays asks at every address, over every protocol.
func askAllWays(t *testing.T, from *lab.Host, f model.Family) {
	t.Helper()
	for _, way := range ways {
		for _, p := range model.Protocols {
			a, err := from.Ask(p, way.at[f], patience)
			if err != nil || a.Outcome != lab.Answered || a.By != way.behind {
				t.Errorf("%s asks %s, %s %s, over %s: %s, %v; want an answer by %s", from, way.at[f], way.name, f, p, a, err, way.behind)
			}
		}
	}
}

// checkUnchecked sends over UDP without checksums, which IPv4 allows: none may
// come in on the way.
func checkUnchecked(t *testing.T, l *lab.Lab) {
	t.Helper()
	pods := map[string]*lab.Host{"pod-1": l.Pods[0].Host, "remote-1": l.RemotePods[0].Host}
	for _, from := range []*lab.Host{l.Outside, l.Node.Host} {
		for _, way := range ways {
			sum, err := sendUnchecked(from, pods[way.behind], way.at[model.IPv4])
			if err != nil || sum != 0 {
				t.Errorf("%s sends to %s, %s, without checksum: it arrives with %#04x, %v", from, way.at[model.IPv4], way.name, sum, err)
			}
		}
	}
}

// The test above proves something only if a wrong checksum is detected.
func TestWrongChecksumIsDetected(t *testing.T) {
	t.Parallel()
	l := newIntact(t)
	w, err := parseWorld(intact)
	if err != nil {
		t.Fatal(err)
	}
	m := node(t, l)
	start(m, w)
	for _, f := range model.Families {
		// Behind our own rules, on the way to the pod.
		installed(t).load(m, commands(`add table FAM spoil
			add chain FAM spoil late { type filter hook postrouting priority 200; }
			add rule FAM spoil late udp dport 8080 @th,48,16 set 0x1234
			add rule FAM spoil late tcp dport 8080 @th,128,16 set 0x1234
			add rule FAM spoil late sctp dport 8080 @th,64,32 set 0x12345678`, f))
		for _, way := range ways {
			if way.behind != "pod-1" {
				continue // waiting for no answer takes time
			}
			for _, p := range model.Protocols {
				a, err := l.Outside.Ask(p, way.at[f], silence)
				if err != nil || a.Outcome != lab.TimedOut {
					t.Errorf("%s, %s over %s: %s, %v; want no answer", way.name, f, p, a, err)
				}
			}
		}
	}
}
