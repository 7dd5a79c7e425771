package sync

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kube-vmap/model"
)

// TestNodePortAddressesMatchKubeProxy has the cases of kube-proxy's test
// (pkg/proxy/util/nodeport_addresses_test.go) for each family, and cases of primary
// addresses, which kube-proxy resolves elsewhere (newProxyServer in
// cmd/kube-proxy/app/server.go). Loopback addresses, which its nftables mode skips later,
// are never in our list.
func TestNodePortAddressesMatchKubeProxy(t *testing.T) {
	const both, none = "ip ip6", ""
	interfaces := addrs(
		"2001:db8::51", "fe80::1", "10.20.30.51", "100.200.201.1", "10.20.30.51", "2001:db8:1::1", "127.0.0.1", "::1", "169.254.0.5",
	)
	ip, ip6 := addrs("10.20.30.51", "100.200.201.1", "169.254.0.5"), addrs("2001:db8::51", "2001:db8:1::1", "fe80::1")
	every := append(append([]netip.Addr{}, ip...), ip6...)
	tests := map[string]struct {
		primary  bool
		prefixes []string
		node     [2]string // primary addresses, empty if unknown
		all      string
		want     []netip.Addr
	}{
		"no limits":                    {all: both, want: every},
		"a range of IPv4":              {prefixes: []string{"10.20.30.0/24"}, all: "ip6", want: append(ip[:1:1], ip6...)},
		"ranges of both":               {prefixes: []string{"10.20.30.0/24", "2001:db8:1::/64"}, all: none, want: []netip.Addr{ip[0], ip6[1]}},
		"ranges without an address":    {prefixes: []string{"192.168.0.0/16", "fd00::/8"}, all: none},
		"ranges that overlap":          {prefixes: []string{"10.0.0.0/8", "10.20.0.0/16", "::/1", "2000::/3"}, all: none, want: []netip.Addr{ip[0], ip6[0], ip6[1]}},
		"all of IPv4":                  {prefixes: []string{"0.0.0.0/0"}, all: both, want: every},
		"all of IPv4 and a range":      {prefixes: []string{"1.2.3.0/24", "0.0.0.0/0"}, all: both, want: every},
		"all of IPv4, a range of IPv6": {prefixes: []string{"0.0.0.0/0", "1.2.3.0/24", "2001:db8::51/128"}, all: "ip", want: append(ip[:3:3], ip6[0])},
		"all, in halves":               {prefixes: []string{"0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1"}, all: none, want: every},
		"an IPv4 loopback address":     {prefixes: []string{"127.0.0.1/32"}, all: "ip6", want: ip6},
		"loopback addresses":           {prefixes: []string{"127.0.0.0/8", "::1/128"}, all: none},
		"link-local addresses":         {prefixes: []string{"fe80::/10", "169.254.0.0/16"}, all: none, want: []netip.Addr{ip[2], ip6[2]}},

		"primary":                              {primary: true, node: [2]string{"10.20.30.51", "2001:db8::51"}, all: none, want: []netip.Addr{ip[0], ip6[0]}},
		"primary, of IPv4 only":                {primary: true, node: [2]string{"10.20.30.51"}, all: "ip6", want: append(ip[:1:1], ip6...)},
		"primary, not known":                   {primary: true, all: both, want: every},
		"primary, in the loopback range":       {primary: true, node: [2]string{"127.0.0.1", "::1"}, all: both, want: every},
		"primary, on no interface":             {primary: true, node: [2]string{"203.0.113.1", "2001:db8:9::1"}, all: none},
		"primary, and a range":                 {primary: true, prefixes: []string{"100.200.201.0/24", "2001:db8:1::/64"}, node: [2]string{"10.20.30.51", "2001:db8::51"}, all: none, want: []netip.Addr{ip[0], ip[1], ip6[0], ip6[1]}},
		"primary of IPv4, but IPv6 nowhere":    {primary: true, prefixes: []string{"::1/128"}, node: [2]string{"10.20.30.51"}, all: none, want: ip[:1]},
		"not primary, though there is one":     {node: [2]string{"10.20.30.51", "2001:db8::51"}, all: both, want: every},
		"a range, whatever the primary one is": {prefixes: []string{"100.200.201.0/24", "fe80::/10"}, node: [2]string{"10.20.30.51", "2001:db8::51"}, all: none, want: []netip.Addr{ip[1], ip6[2]}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := NodePortAddresses{Primary: test.primary}
			for _, text := range test.prefixes {
				n.Prefixes = append(n.Prefixes, netip.MustParsePrefix(text))
			}
			var node [len(model.Families)]netip.Addr
			for i, text := range test.node {
				if text != "" {
					node[i] = netip.MustParseAddr(text)
				}
			}
			for i, all := range [...]bool{test.all == both || test.all == "ip", test.all == both || test.all == "ip6"} {
				if f := model.Families[i]; n.All(f, node) != all {
					t.Errorf("All(%s): got %v", f, !all)
				}
			}
			if diff := cmp.Diff(test.want, n.Select(interfaces, node), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("Select: -want +got\n%s", diff)
			}
		})
	}
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}
