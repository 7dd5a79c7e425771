package sync

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kube-vmap/model"
)

func TestOpenFamily(t *testing.T) {
	const both = "198.51.100.2 2001:db8::2"
	for _, test := range []struct{ ranges, lb, want string }{
		{"", both, ""},
		{"203.0.113.0/24 2001:db8:1::/48", both, ""},
		{"203.0.113.0/24 192.0.2.0/24", both, "family IPv6: anyone may use"},
		{"2001:db8:1::/48", both, "family IPv4: anyone may use"},
		{"203.0.113.0/24", "198.51.100.2", ""},
		{"203.0.113.0/24", "", ""},
	} {
		var s model.Service
		for r := range strings.FieldsSeq(test.ranges) {
			s.SourceRanges = append(s.SourceRanges, netip.MustParsePrefix(r))
		}
		for a := range strings.FieldsSeq(test.lb) {
			s.LoadBalancerIPs = append(s.LoadBalancerIPs, netip.MustParseAddr(a))
		}
		err := openFamily(&s)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: got %v", test, err)
		}
	}
	s := model.Service{
		SourceRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, RangesForAll: true,
		ClusterIPs: []netip.Addr{netip.MustParseAddr("2001:db8::1")}, Ports: []model.ServicePort{{Port: 80}},
	}
	if err := openFamily(&s); err != nil {
		t.Errorf("without a node port: %v", err)
	}
	if s.Ports[0].NodePort = 30000; openFamily(&s) == nil {
		t.Error("no warning about node ports")
	}
}

func TestOpenFamilyIsReportedOnce(t *testing.T) {
	s := model.Service{
		Name:            model.ServiceName{Namespace: "shop", Name: "web"},
		SourceRanges:    []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		LoadBalancerIPs: []netip.Addr{netip.MustParseAddr("2001:db8::2")},
	}
	for _, strict := range []bool{false, true} {
		st := newDesiredState(Config{Options: model.Options{StrictSourceRanges: strict}})
		reported := 0
		for range 3 {
			st.apply([]Event{SetService{s}})
			st.warnings.pending(func(Object, string) { reported++ })
		}
		if want := map[bool]int{false: 1, true: 0}[strict]; reported != want {
			t.Errorf("strict %v: reported %d times, want %d", strict, reported, want)
		}
		st.apply([]Event{DeleteService{s.Name}, SetService{s}})
		st.warnings.pending(func(Object, string) { reported++ })
		if want := map[bool]int{false: 2, true: 0}[strict]; reported != want {
			t.Errorf("strict %v: reported %d times after it was deleted and created again, want %d", strict, reported, want)
		}
	}
}

// TestPingsGoToAnAddressOfTheNode changes the addresses of interfaces and of the Node object.
func TestPingsGoToAnAddressOfTheNode(t *testing.T) {
	st := newDesiredState(Config{AnswerPings: true})
	for _, step := range []struct{ interfaces, node, want string }{
		{"", "192.0.2.1", ""},
		{"192.0.2.8/24 fe80::1/64", "192.0.2.1", "192.0.2.8"},
		{"192.0.2.1/24 192.0.2.8/24 2001:db8::1/64", "192.0.2.1", "192.0.2.1 2001:db8::1"},
		{"192.0.2.8/24 2001:db8::1/64", "192.0.2.1", "192.0.2.8 2001:db8::1"},
	} {
		var interfaces []netip.Prefix
		for p := range strings.FieldsSeq(step.interfaces) {
			interfaces = append(interfaces, netip.MustParsePrefix(p))
		}
		st.setInterfaces(interfaces)
		st.setNode(model.Node{Addrs: [2]netip.Addr{netip.MustParseAddr(step.node)}})
		var got []string
		for _, a := range st.config.Rules.PingTo {
			if a.IsValid() {
				got = append(got, a.String())
			}
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("%+v: pings go to %s", step, got)
		}
	}
}

// TestListsAreHalvedBetweenServices names Services by the first letter of their items.
func TestListsAreHalvedBetweenServices(t *testing.T) {
	of := func(item string) model.ServiceName { return model.ServiceName{Name: item[:1]} }
	for list, want := range map[string]string{
		"b1 a1 b2 a2 a3 b3":    "[a1 a2 a3] [b1 b2 b3] true",
		"a1 a2 a3 a4 a5 b1":    "[a1 a2 a3 a4 a5] [b1] true",
		"a1 b1 b2 b3 b4 b5 b6": "[a1] [b1 b2 b3 b4 b5 b6] true",
		"a1 a2":                "[a1 a2] [] false",
	} {
		if one, other, divided := halve(strings.Fields(list), of); fmt.Sprint(one, other, divided) != want {
			t.Errorf("%s: %s, %s, %t, want %s", list, one, other, divided, want)
		}
	}
}

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
