package config

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"kube-vmap/model"
)

// parseFlags parses arguments like the program.
func parseFlags(t *testing.T, args ...string) *Flags {
	t.Helper()
	f := NewFlags()
	fs := pflag.NewFlagSet("kube-vmap", pflag.ContinueOnError)
	f.AddTo(fs)
	must(t, fs.Parse(args))
	return f
}

// load returns a valid configuration.
func load(t *testing.T, args ...string) *Config {
	t.Helper()
	c, err := parseFlags(t, args...).Config()
	must(t, err)
	return c
}

func written(t *testing.T, c *Config) string {
	t.Helper()
	var b bytes.Buffer
	must(t, c.Write(&b))
	return b.String()
}

const header = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

// loadText returns the configuration of a file with these fields.
func loadText(t *testing.T, fields string, args ...string) *Config {
	t.Helper()
	return load(t, append(args, "--config", write(t, header+fields))...)
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.conf")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func warned(c *Config, text string) []string {
	return slices.DeleteFunc(slices.Clone(c.Warnings), func(w string) bool { return !strings.Contains(w, text) })
}

func TestEachModeUsesItsSection(t *testing.T) {
	const sections = `
iptables: {masqueradeBit: 10, masqueradeAll: true, syncPeriod: 11s, minSyncPeriod: 1100ms}
ipvs: {syncPeriod: 22s, minSyncPeriod: 2s, scheduler: sh}
nftables: {masqueradeBit: 31, masqueradeAll: false, syncPeriod: 33s, minSyncPeriod: 3s}
`
	for _, test := range []struct {
		mode               string
		mark               uint32
		masqueradeAll      bool
		period, leastBreak time.Duration
	}{
		{"", 1 << 31, false, 33 * time.Second, 3 * time.Second},
		{"nftables", 1 << 31, false, 33 * time.Second, 3 * time.Second},
		{"iptables", 1 << 10, true, 11 * time.Second, 1100 * time.Millisecond},
		{"ipvs", 1 << 10, true, 22 * time.Second, 2 * time.Second},
	} {
		c := loadText(t, "mode: '"+test.mode+"'"+sections)
		if s := c.section(); c.MasqueradeMark() != test.mark || s.masqueradeAll != test.masqueradeAll ||
			s.syncPeriod != test.period || s.minSyncPeriod != test.leastBreak || c.Scheduler() != model.SchedulerSourceHash {
			t.Errorf("mode %s: mark %#x, scheduler %s, %+v", test.mode, c.MasqueradeMark(), c.Scheduler(), s)
		}
		if got := c.NFTablesIsSet(); got != (test.mode == "nftables") || load(t).NFTablesIsSet() {
			t.Errorf("mode %s: NFTablesIsSet: got %t", test.mode, got)
		}
		// Flags for several modes set the selected one; as in kube-proxy, --iptables-masquerade-bit not nftables.
		c = load(t, "--proxy-mode="+test.mode, "--masquerade-all", "--iptables-masquerade-bit=7", "--iptables-sync-period=11s",
			"--iptables-min-sync-period=1s", "--ipvs-sync-period=22s", "--ipvs-min-sync-period=2s")
		mark, period, least := uint32(1<<7), 11*time.Second, time.Second
		switch test.mode {
		case "", "nftables":
			mark = 1 << 14
		case "ipvs":
			period, least = 22*time.Second, 2*time.Second
		}
		if s := c.section(); c.MasqueradeMark() != mark || !s.masqueradeAll || s.syncPeriod != period || s.minSyncPeriod != least {
			t.Errorf("mode %s: of flags: mark %#x, %+v", test.mode, c.MasqueradeMark(), s)
		}
	}
}

func TestClusterCIDRsAreByFamily(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")
	for _, test := range []struct {
		name, fields string
		want         [len(model.Families)]netip.Prefix
	}{
		{"none", "", [2]netip.Prefix{}},
		{"IPv4", "clusterCIDR: 10.244.0.0/16", [2]netip.Prefix{model.IPv4: v4}},
		{"IPv6", "clusterCIDR: fd00:10:244::/56", [2]netip.Prefix{model.IPv6: v6}},
		{"both", "clusterCIDR: 10.244.0.0/16,fd00:10:244::/56", [2]netip.Prefix{v4, v6}},
		{"both, IPv6 first", "clusterCIDR: fd00:10:244::/56,10.244.0.0/16", [2]netip.Prefix{v4, v6}},
		{"with a space and bits of hosts", "clusterCIDR: 10.244.3.1/16, fd00:10:244::1/56", [2]netip.Prefix{v4, v6}},
		{"with leading zeros", "clusterCIDR: 010.244.0.00/16", [2]netip.Prefix{model.IPv4: v4}},
		{"another mode, which does not use it", "clusterCIDR: 10.244.0.0/16\ndetectLocalMode: NodeCIDR", [2]netip.Prefix{}},
		{"another mode, which does not read it", "clusterCIDR: none\ndetectLocalMode: NodeCIDR", [2]netip.Prefix{}},
	} {
		if got := loadText(t, test.fields).ClusterCIDRs(); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestProxyPortsAreDefaultsAndConfiguredOnes(t *testing.T) {
	for flags, want := range map[string][]uint16{
		"": {10249, 10256},
		"--healthz-bind-address=192.0.2.1 --metrics-bind-address=[::]:2": {2, 10249, 10256},
		"--healthz-bind-address=:: --metrics-bind-address=::1":           {10249, 10256},
		"--healthz-bind-address=[::1]:7 --metrics-bind-address=[::1]:7":  {7, 10249, 10256},
	} {
		if got := load(t, strings.Fields(flags)...).ProxyPorts(); !slices.Equal(got, want) {
			t.Errorf("%s: got %d, want %d", flags, got, want)
		}
	}
}

func TestNodeNameIsTrimmedAndInLowerCase(t *testing.T) {
	host, err := os.Hostname()
	must(t, err)
	for fields, want := range map[string]string{
		"":                              strings.ToLower(host),
		"hostnameOverride: ' Worker-1'": "worker-1",
	} {
		if got, err := loadText(t, fields).NodeName(); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", fields, got, err, want)
		}
	}
	if got, err := loadText(t, "hostnameOverride: ' '").NodeName(); err == nil || !strings.HasPrefix(err.Error(), "hostnameOverride: ") {
		t.Errorf("of white space: got %q, %v", got, err)
	}
}

func TestSupportedFeatureGatesCanBeClosed(t *testing.T) {
	for _, test := range []struct {
		fields, gate string
		want         bool
	}{
		{"", "ComponentFlagz", true},
		{"", "ComponentStatusz", true},
		{"", "AllowServiceExternalIPs", true},
		{"featureGates: {AllowServiceExternalIPs: false}", "AllowServiceExternalIPs", false},
		{"featureGates: {ComponentFlagz: false}", "ComponentFlagz", false},
		{"featureGates: {ComponentFlagz: false}", "ComponentStatusz", true},
		{"featureGates: {Other: true}", "Other", false},
	} {
		c := loadText(t, test.fields)
		if got := c.Feature(test.gate); got != test.want {
			t.Errorf("%s with %q: got %v", test.gate, test.fields, got)
		}
		if loop, err := c.Loop(); err != nil || loop.IgnoreExternalIPs == c.Feature(externalIPs) {
			t.Errorf("with %q external IPs are ignored: %t, %v", test.fields, loop.IgnoreExternalIPs, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
