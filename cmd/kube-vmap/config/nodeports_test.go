package config

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/model"
)

func TestNodePortsAnswerOnPrimaryRangesAndLocalhost(t *testing.T) {
	for _, test := range []struct {
		list      string // value of the flag
		primary   bool
		prefixes  string
		localhost bool
	}{
		{"", true, "", false},
		{"primary", true, "", false},
		{"192.0.2.7/24,2001:db8::/32", false, "192.0.2.0/24 2001:db8::/32", false},
		{"010.0.0.1/08, fe80::1/10", false, "10.0.0.0/8 fe80::/10", false},
		{"0.0.0.0/0,::/0", false, "0.0.0.0/0 ::/0", false},
		{"primary,localhost", true, "127.0.0.0/8 ::1/128", true},
		{"localhost,primary", true, "127.0.0.0/8 ::1/128", true},
		{"primary,192.0.2.0/24", true, "192.0.2.0/24", false},
		{"localhost,192.0.2.0/24", false, "127.0.0.0/8 ::1/128 192.0.2.0/24", true},
		{"localhost", false, "127.0.0.0/8 ::1/128", true},
		{"127.0.0.0/8", false, "127.0.0.0/8", false},
	} {
		items := strings.ReplaceAll(strings.ReplaceAll(test.list, ", ", ","), ",", "', '")
		fields := "nodePortAddresses: ['" + items + "']"
		if test.list == "" {
			fields = "nodePortAddresses: []"
		}
		for _, c := range []*Config{load(t, "--nodeport-addresses="+test.list), loadText(t, fields), loadText(t, fields+"\nmode: iptables")} {
			got := c.NodePorts()
			var prefixes []string
			for _, p := range got.Prefixes {
				prefixes = append(prefixes, p.String())
			}
			if got.Primary != test.primary || strings.Join(prefixes, " ") != test.prefixes || c.LocalhostNodePorts() != test.localhost {
				t.Errorf("%q: got %+v, localhost %v", test.list, got, c.LocalhostNodePorts())
			}
		}
	}
	if got := load(t).NodePorts(); !got.Primary || got.Prefixes != nil {
		t.Errorf("without the flag: got %+v", got)
	}
}

func TestBindAddressIsThePrimaryAddressUnlessUnspecified(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for text, want := range map[string][len(model.Families)]netip.Addr{
		"":                 {},
		"0.0.0.0":          {},
		"::":               {},
		"192.0.2.1":        {model.IPv4: v4},
		"192.000.002.001":  {model.IPv4: v4},
		"2001:db8::1":      {model.IPv6: v6},
		"::ffff:192.0.2.1": {model.IPv4: v4},
		"127.0.0.1":        {model.IPv4: netip.MustParseAddr("127.0.0.1")},
	} {
		if got := loadText(t, "bindAddress: '"+text+"'").NodeIPs(); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestUnexpectedNodePortAddressesAreAWarning(t *testing.T) {
	const (
		loopback = "do not answer on 127.0.0.0/8"
		open4    = "nodePortAddresses: has no range of family IPv4"
		open6    = "nodePortAddresses: has no range of family IPv6"
	)
	for _, test := range []struct {
		list, pods string
		want       []string
	}{
		{"primary", "10.244.0.0/16,fd00::/56", nil},
		{"primary, localhost", "10.244.0.0/16,fd00::/56", nil},
		{"localhost", "10.244.0.0/16,fd00::/56", nil},
		{"192.0.2.0/24, '2001:db8::/32'", "10.244.0.0/16,fd00::/56", nil},
		{"192.0.2.0/24", "10.244.0.0/16", nil},
		{"192.0.2.0/24", "10.244.0.0/16,fd00::/56", []string{open6}},
		{"192.0.2.0/24", "fd00::/56", []string{open6}},
		{"'2001:db8::/32'", "10.244.0.0/16,fd00::/56", []string{open4}},
		{"'2001:db8::/32', primary", "10.244.0.0/16,fd00::/56", nil},
		{"'::/0'", "fd00::/56", nil},
		{"0.0.0.0/0", "10.244.0.0/16", nil},
		{"127.0.0.1/8, primary", "10.244.0.0/16", []string{loopback}},
		{"127.0.0.0/8", "10.244.0.0/16,fd00::/56", []string{loopback, open6}},
		{"'::1/128', primary", "10.244.0.0/16", []string{"do not answer on ::1/128"}},
		{"64.0.0.0/2", "10.244.0.0/16", nil},
	} {
		c := loadText(t, "nodePortAddresses: ["+test.list+"]\nclusterCIDR: "+test.pods)
		if !slices.EqualFunc(c.Warnings, test.want, strings.Contains) {
			t.Errorf("%s with pods in %s: warnings %q, want %q", test.list, test.pods, c.Warnings, test.want)
		}
	}
	c := load(t, "--nodeport-addresses=127.0.0.0/8", "--cluster-cidr=10.0.0.0/8")
	if len(c.Warnings) != 1 || !strings.HasPrefix(c.Warnings[0], "--nodeport-addresses: ") {
		t.Errorf("warnings: %q", c.Warnings)
	}
}
