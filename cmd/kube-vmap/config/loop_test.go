package config

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/model"
)

func TestSchedulersHaveTheNamesOfIPVS(t *testing.T) {
	for name, want := range map[string]model.Scheduler{
		"": model.SchedulerRandom, "mh": model.SchedulerMaglev, "wlc": model.SchedulerLeastConnections,
	} {
		for _, mode := range []string{"nftables", "iptables", "ipvs"} {
			for _, c := range []*Config{
				load(t, "--proxy-mode="+mode, "--ipvs-scheduler="+name),
				loadText(t, "mode: "+mode+"\nipvs: {scheduler: '"+name+"'}"),
			} {
				warnings := 0
				if name == "" && mode == "ipvs" {
					warnings = 1 // kube-proxy would use rr
				}
				loop, err := c.Loop()
				if got := loop.Scheduler; got != want || err != nil || len(warned(c, "scheduler")) != warnings {
					t.Errorf("%q in mode %s: got %s, warnings %q", name, mode, got, c.Warnings)
				}
			}
		}
	}
}

func TestUnsupportedSchedulersAreAWarningWithTheReason(t *testing.T) {
	for name, why := range map[string]string{"lblc": "connections", "dh": "every client", "RR": "no such scheduler"} {
		for prefix, c := range map[string]*Config{
			"--ipvs-scheduler: ": load(t, "--ipvs-scheduler="+name),
			"ipvs.scheduler: ":   loadText(t, "ipvs: {scheduler: "+name+"}"),
		} {
			got := warned(c, prefix+name+": ")
			if len(got) != 1 || !strings.Contains(got[0], why) || c.Scheduler() != model.SchedulerRandom {
				t.Errorf("%s%s: got %s, warnings %q, want %q", prefix, name, c.Scheduler(), c.Warnings, why)
			}
		}
	}
}

func TestPassiveHealthChecksReachTheLoop(t *testing.T) {
	for value, want := range map[string]model.PassiveChecks{
		"off": model.PassiveChecksOff, "report": model.PassiveChecksReport, "avoid": model.PassiveChecksAvoid,
	} {
		for percent, arg := range map[int]string{1: "=1", 100: "=100"} {
			loop, err := load(t, "--passive-health-checks="+value, "--passive-health-checks-max-percent"+arg).Loop()
			if err != nil || loop.PassiveChecks != want || loop.MaxAvoidedPercent != percent {
				t.Errorf("%s: got %s, at most %d %%, %v", value, loop.PassiveChecks, loop.MaxAvoidedPercent, err)
			}
		}
	}
}

func TestNodePortsAnswerOnWordsAndRangesInAnyMix(t *testing.T) {
	const everything, loopbacks = "0.0.0.0/0 ::/0", "127.0.0.0/8 ::1/128"
	for _, test := range []struct {
		list      string // value of the flag
		primary   bool
		prefixes  string
		localhost string // families with NodePorts on localhost
	}{
		{"", true, "", ""},
		{"all", false, everything, ""},
		{"192.0.2.7/24,2001:db8::/32", false, "192.0.2.0/24 2001:db8::/32", ""},
		{"010.0.0.1/08, fe80::1/10", false, "10.0.0.0/8 fe80::/10", ""},
		{"primary,all", true, everything, ""},
		{"primary,localhost", true, loopbacks, "IPv4 IPv6"},
		{"192.0.2.0/24,192.0.2.0/24", false, "192.0.2.0/24 192.0.2.0/24", ""},
		{"primary,localhost,192.0.2.0/24,all", true, loopbacks + " 192.0.2.0/24 " + everything, "IPv4 IPv6"},
		{"127.0.0.0/8", false, "127.0.0.0/8", "IPv4"},
		{"primary,127.0.0.1/32", true, "127.0.0.1/32", "IPv4"},
		{"primary,::1/128", true, "::1/128", "IPv6"},
		{"127.0.0.2/32", false, "127.0.0.2/32", ""},
		{"64.0.0.0/2", false, "64.0.0.0/2", ""},
	} {
		items := strings.ReplaceAll(strings.ReplaceAll(test.list, ", ", ","), ",", "', '")
		fields := "nodePortAddresses: ['" + items + "']"
		if test.list == "" {
			fields = "nodePortAddresses: []"
		}
		for _, mode := range []string{"nftables", "iptables", "ipvs"} {
			for _, c := range []*Config{
				load(t, "--nodeport-addresses="+test.list, "--proxy-mode="+mode), loadText(t, fields+"\nmode: "+mode),
			} {
				got := c.NodePorts()
				var prefixes, localhost []string
				for _, p := range got.Prefixes {
					prefixes = append(prefixes, p.String())
				}
				for _, f := range model.Families {
					if c.LocalhostNodePorts()[f] {
						localhost = append(localhost, f.String())
					}
				}
				if got.Primary != test.primary || strings.Join(prefixes, " ") != test.prefixes || strings.Join(localhost, " ") != test.localhost {
					t.Errorf("%q in mode %s: got %+v, localhost %q", test.list, mode, got, localhost)
				}
			}
		}
	}
	if got := load(t).NodePorts(); !got.Primary || got.Prefixes != nil {
		t.Errorf("without the flag: got %+v", got)
	}
}

func TestFeatureGateDisablesNodePortsOnLocalhost(t *testing.T) {
	const gate = "KubeProxyNFTablesLocalhostNodePorts"
	for text, want := range map[string]bool{"": true, gate + ": true": true, gate + ": false": false, "AllAlpha: false": true} {
		c := loadText(t, "nodePortAddresses: [primary, localhost]\nfeatureGates: {"+text+"}")
		if got := c.LocalhostNodePorts(); got != [...]bool{want, want} {
			t.Errorf("gates %q: got %v", text, got)
		}
		if got := warned(c, "the feature gate "+gate+" is disabled"); (len(got) == 2) == want {
			t.Errorf("gates %q: warnings %q", text, c.Warnings)
		}
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
		loopback = "do not answer on 127.0.0.2/32; of loopback addresses, only NodePorts of TCP on 127.0.0.1 can"
		open4    = "nodePortAddresses: has no range of family IPv4"
		open6    = "nodePortAddresses: has no range of family IPv6"
	)
	for _, test := range []struct {
		list, pods string
		want       []string
	}{
		{"primary, localhost", "10.244.0.0/16,fd00::/56", nil},
		{"192.0.2.0/24, '2001:db8::/32'", "10.244.0.0/16,fd00::/56", nil},
		{"192.0.2.0/24", "10.244.0.0/16,fd00::/56", []string{open6}},
		{"'2001:db8::/32'", "10.244.0.0/16,fd00::/56", []string{open4}},
		{"'2001:db8::/32', primary", "10.244.0.0/16,fd00::/56", nil},
		{"all", "10.244.0.0/16,fd00::/56", nil},
		{"127.0.0.2/32, primary", "10.244.0.0/16", []string{loopback}},
		{"127.0.0.2/31, localhost", "10.244.0.0/16", []string{"do not answer on 127.0.0.2/31"}},
		{"127.0.0.2/32", "10.244.0.0/16,fd00::/56", []string{loopback, open6}},
		{"64.0.0.0/2", "10.244.0.0/16", nil},
	} {
		c := loadText(t, "nodePortAddresses: ["+test.list+"]\nclusterCIDR: "+test.pods)
		if !slices.EqualFunc(c.Warnings, test.want, strings.Contains) {
			t.Errorf("%s with pods in %s: warnings %q, want %q", test.list, test.pods, c.Warnings, test.want)
		}
	}
	c := load(t, "--nodeport-addresses=127.1.0.0/16", "--cluster-cidr=10.0.0.0/8")
	if len(c.Warnings) != 1 || !strings.HasPrefix(c.Warnings[0], "--nodeport-addresses: ") {
		t.Errorf("warnings: %q", c.Warnings)
	}
}

// TestLocalhostOfModeIPTablesIsAWarning has kube-proxy's behaviour in that mode: 127.0.0.1
// is served if no list excludes it, unless iptables.localhostNodePorts is false.
func TestLocalhostOfModeIPTablesIsAWarning(t *testing.T) {
	for _, test := range []struct {
		fields         string
		primary, local bool // warnings
	}{
		{"mode: nftables", false, false},
		{"mode: ipvs", true, false},
		{"mode: iptables", true, true},
		{"mode: iptables\niptables: {localhostNodePorts: false}", true, false},
		{"mode: iptables\nnodePortAddresses: [primary]", false, false},
		{"mode: iptables\nnodePortAddresses: [all]", false, true},
		{"mode: iptables\nnodePortAddresses: [all, localhost]", false, false},
		{"mode: iptables\nnodePortAddresses: [localhost]\nfeatureGates: {KubeProxyNFTablesLocalhostNodePorts: false}", false, true},
	} {
		c := loadText(t, test.fields)
		if got := warned(c, "primary addresses only"); (len(got) == 1) != test.primary {
			t.Errorf("%s: warnings %q", test.fields, c.Warnings)
		}
		if got := warned(c, "mode: NodePorts do not answer on 127.0.0.1; in that mode"); (len(got) == 1) != test.local {
			t.Errorf("%s: warnings %q", test.fields, c.Warnings)
		}
	}
	if c := load(t, "--proxy-mode=iptables"); len(warned(c, "--proxy-mode: NodePorts ")) != 2 {
		t.Errorf("warnings %q", c.Warnings)
	}
	if c := load(t, "--proxy-mode=iptables", "--nodeport-addresses=primary"); len(warned(c, "--proxy-mode: NodePorts ")) != 0 {
		t.Errorf("warnings %q", c.Warnings)
	}
}
