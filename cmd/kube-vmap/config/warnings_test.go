package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFieldsWithoutEffectAreOneWarning(t *testing.T) {
	for _, test := range []struct {
		fields string
		want   string // empty: no such warning
	}{
		{"", ""},
		{"iptables: {localhostNodePorts: true, minSyncPeriod: 1s, masqueradeBit: 14}\nipvs: {scheduler: rr, excludeCIDRs: []}", ""},
		{"iptables: {localhostNodePorts: false}", "iptables.localhostNodePorts"},
		{"iptables: {masqueradeBit: 7, masqueradeAll: true, syncPeriod: 7s, minSyncPeriod: 2s}", "iptables.masqueradeAll, iptables.masqueradeBit, iptables.minSyncPeriod, iptables.syncPeriod"},
		{"mode: iptables\niptables: {masqueradeBit: 7, masqueradeAll: true, syncPeriod: 7s, minSyncPeriod: 2s}", ""},
		{"mode: iptables\nnftables: {masqueradeBit: 7, minSyncPeriod: 2s}", "nftables.masqueradeBit, nftables.minSyncPeriod"},
		{"mode: ipvs\niptables: {masqueradeBit: 7, syncPeriod: 7s}\nipvs: {syncPeriod: 7s, minSyncPeriod: 2s}", "iptables.syncPeriod"},
		{
			"ipvs: {syncPeriod: 7s, scheduler: sh, strictARP: true, tcpTimeout: 1s, tcpFinTimeout: 1s, udpTimeout: 1s, excludeCIDRs: [10.0.0.0/8]}",
			"ipvs.strictARP (no interface has addresses of Services), ipvs.syncPeriod, ipvs.tcpFinTimeout, " +
				"ipvs.tcpTimeout (conntrack.tcpEstablishedTimeout applies), ipvs.udpTimeout (conntrack.udpStreamTimeout applies)",
		},
		{"portRange: 1-2\nwindowsRunAsService: true\nconfigSyncPeriod: 1m\nshowHiddenMetricsForVersion: '1.35'", "configSyncPeriod, portRange, showHiddenMetricsForVersion, windowsRunAsService"},
		{
			"winkernel: {networkName: a, sourceVip: b, enableDSR: true, rootHnsEndpointName: c, forwardHealthCheckVip: true}",
			"winkernel.enableDSR, winkernel.forwardHealthCheckVip, winkernel.networkName, winkernel.rootHnsEndpointName, winkernel.sourceVip",
		},
		{"logging: {verbosity: 5, format: json, flushFrequency: 5000000000}", ""},
		{
			"logging: {flushFrequency: 6s, vmodule: [{filePattern: a, verbosity: 1}], options: {text: {splitStream: true, infoBufferSize: 1Ki}}}",
			"logging.flushFrequency, logging.options.text.infoBufferSize, logging.options.text.splitStream, logging.vmodule",
		},
		{"nodePortAddresses: [10.0.0.0/8, localhost]\nbindAddress: 192.0.2.1", ""},
		{"featureGates: {ComponentFlagz: false, ComponentStatusz: true, AllowServiceExternalIPs: false}", ""},
		{"featureGates: {AllAlpha: true, NoSuchGate: false, ComponentFlagz: false}", "featureGates.AllAlpha, featureGates.NoSuchGate"},
	} {
		c := loadText(t, test.fields)
		var want []string
		if test.want != "" {
			want = []string{"set, but without effect here: " + test.want}
		}
		if got := warned(c, "without effect"); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", test.fields, got, want)
		}
	}
}

func TestFlagsWithoutEffectAreWarnedAbout(t *testing.T) {
	file := "--config=" + write(t, header+"ipvs: {strictARP: true}")
	for args, want := range map[string]string{
		"--ipvs-strict-arp --iptables-localhost-nodeports=false --boot-id-file=/b --machine-id-file=/m --vmodule=a=1 " +
			"--feature-gates=AllBeta=false --iptables-masquerade-bit=7 --ipvs-sync-period=7s": "--boot-id-file, --iptables-localhost-nodeports, " +
			"--iptables-masquerade-bit, --ipvs-strict-arp (no interface has addresses of Services), --ipvs-sync-period, --machine-id-file, --vmodule, featureGates.AllBeta",
		"--proxy-mode=ipvs --iptables-sync-period=7s": "--iptables-sync-period",
		file + " --vmodule=a=1 --machine-id-file=/m":  "--machine-id-file, --vmodule, ipvs.strictARP (no interface has addresses of Services)",
		"--ipvs-udp-timeout=7s":                       "--ipvs-udp-timeout (--conntrack-udp-timeout-stream applies)",
	} {
		got := warned(load(t, strings.Fields(args)...), "without effect")
		if !slices.Equal(got, []string{"set, but without effect here: " + want}) {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
}

// TestWarnings has settings of a file or, without any, of flags.
func TestWarnings(t *testing.T) {
	const pods = "not set, so connections to ClusterIPs"
	out := "--write-config-to=" + filepath.Join(t.TempDir(), "out")
	for _, test := range []struct {
		fields, args string
		text         string
		want         bool
	}{
		{"", "--proxy-mode=iptables", "mode: iptables runs as nftables", true},
		{"mode: iptables", "", "mode: iptables runs as nftables", true},
		{"", "--proxy-mode=ipvs", "mode: ipvs runs as nftables", true},
		{"mode: ipvs", "", "mode: ipvs runs as nftables", true},
		{"", "", "runs as", false},
		{"mode: nftables", "", "runs as", false},
		{"mode: ''", "", "runs as", false},
		{"clusterCIDR: 10.244.0.0/16", "", pods, false},
		{"clusterCIDR: fd00::/56", "", pods, false},
		{"detectLocalMode: NodeCIDR", "", pods, false},
		{"nftables: {masqueradeAll: true}", "", pods, false}, // makes no difference
		{"mode: nftables", "", "clusterCIDR: " + pods, true},
		{"", "", "--cluster-cidr: " + pods, true},
		{"", "--healthz-port=0", "deprecated", true},
		{"", "", "deprecated", false},
		{"", "--healthz-port=0 " + out, "cannot disable", true},
		{"", "--metrics-bind-address= " + out, "cannot disable", true},
		{"", out, "cannot disable", false},
	} {
		args := strings.Fields(test.args)
		if test.fields != "" {
			args = append(args, "--config="+write(t, header+test.fields))
		}
		if got := warned(load(t, args...), test.text); (len(got) == 1) != test.want || len(got) > 1 {
			t.Errorf("%q, %s: got %q, want %q: %t", test.fields, test.args, got, test.text, test.want)
		}
	}
}
