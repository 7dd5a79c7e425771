package explain

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/nft/kernel/simulator"
	"kube-vmap/nft/simulate"
)

// hashes is the number of results of the hash: so many that none is right by chance.
const hashes = 4096

// hashing returns a table that selects the destination port by a hash. It has the name of our
// table, so that it is simulated.
func hashing(family, key, to string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "table %s kube-vmap {\n\tmap places { type mark : %s . inet_service; size %d; elements = {", family, map[string]string{"ip": "ipv4_addr", "ip6": "ipv6_addr"}[family], hashes)
	for n := range hashes {
		fmt.Fprintf(&b, " %d : %s . %d,", n, to, 10_000+n)
	}
	fmt.Fprintf(&b, " }; }\n\tchain out { type nat hook output priority -100; udp dport 9 meta mark set jhash %s mod %d seed 0x6b766d70; udp dport 9 dnat %s to meta mark map @places; }\n}\n", key, hashes, family)
	return b.String()
}

// TestHashesEqualTheKernels has the kernel hash keys of 4, 8, 16, 20 and 36 bytes, and reads
// the result from connection tracking.
func TestHashesEqualTheKernels(t *testing.T) {
	for _, tc := range []struct {
		family, key, to string
		from            func(n int) netip.Addr
	}{
		{"ip", "ip saddr", "127.0.0.1", loopback4},
		{"ip", "ip saddr . udp sport", "127.0.0.1", loopback4},
		{"ip6", "ip6 saddr", "::1", loopback6},
		{"ip6", "ip6 saddr . udp sport", "::1", loopback6},
		{"ip6", "ip6 saddr . udp sport . ip6 daddr", "::1", loopback6},
	} {
		t.Run(tc.family+" "+tc.key, func(t *testing.T) {
			host := labtest.Alone(t)
			run(t, host, "nft", hashing(tc.family, tc.key, tc.to))
			run(t, host, "ip", "-6", "route", "add", "local", "fd00:127::/64", "dev", "lo")
			nonlocal := func() error { return os.WriteFile("/proc/sys/net/ipv6/ip_nonlocal_bind", []byte("1"), 0) }
			if err := host.Do(nonlocal); err != nil {
				t.Fatal(err)
			}
			w, err := simulator.Open(simulator.Config{NetNS: host.FD()})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = w.Close() }()
			tracked := conntrack.New(conntrack.Config{NetNS: host.FD()})
			for n := range 30 {
				p := simulate.Packet{From: tc.from(n), FromPort: uint16(20_000 + 37*n), To: netip.MustParseAddrPort(at(tc.to)), Protocol: model.UDP}
				result, err := w.Run(p, "")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := host.AskFrom(p.Protocol, netip.AddrPortFrom(p.From, p.FromPort), p.To, 1); err != nil {
					t.Fatal(err)
				}
				flows, err := tracked.Flows(p.Protocol, netip.AddrPortFrom(p.From, p.FromPort), p.To)
				if err != nil || len(flows) != 1 {
					t.Fatalf("%s: flows %v, %v", p, flows, err)
				}
				o := single(t, result)
				if len(o.Endpoints) != 1 || o.Endpoints[0].Address != flows[0].Reply {
					t.Fatalf("%s goes to %s, predicted %+v", p, flows[0].Reply, o.Endpoints)
				}
			}
		})
	}
}

func at(a string) string { return netip.AddrPortFrom(netip.MustParseAddr(a), 9).String() }

func loopback4(n int) netip.Addr { return netip.AddrFrom4([4]byte{127, byte(n), 7, byte(3 * n)}) }

func loopback6(n int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("fd00:127::%x:%x", 1+n, 7919*n%0xffff))
}

func run(t *testing.T, host *lab.Host, program string, args ...string) {
	t.Helper()
	if out, err := host.Command(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}
