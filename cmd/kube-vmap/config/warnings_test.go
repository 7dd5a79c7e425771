package config

import (
	"slices"
	"strings"
	"testing"
)

func TestOtherModesAreAWarning(t *testing.T) {
	for _, mode := range []string{"iptables", "ipvs"} {
		for _, c := range []*Config{load(t, "--proxy-mode", mode), loadText(t, "mode: "+mode)} {
			if got := warned(c, "mode: "+mode+" runs as nftables"); len(got) != 1 {
				t.Errorf("warnings: %v", c.Warnings)
			}
		}
	}
	for _, c := range []*Config{load(t), loadText(t, "mode: nftables"), loadText(t, "mode: ''")} {
		if got := warned(c, "runs as"); len(got) > 0 {
			t.Errorf("warnings: %v", c.Warnings)
		}
	}
}

func TestFieldsWithoutEffectAreOneWarning(t *testing.T) {
	for _, test := range []struct {
		fields string
		want   string // empty: no such warning
	}{
		{"", ""},
		{"iptables: {localhostNodePorts: true, minSyncPeriod: 1s, masqueradeBit: 14}\nipvs: {scheduler: rr, excludeCIDRs: []}", ""},
		{"iptables: {localhostNodePorts: false}", "iptables.localhostNodePorts"},
		{
			"iptables: {masqueradeBit: 7, masqueradeAll: true, syncPeriod: 7s, minSyncPeriod: 2s}",
			"iptables.masqueradeAll, iptables.masqueradeBit, iptables.minSyncPeriod, iptables.syncPeriod",
		},
		{"mode: iptables\niptables: {masqueradeBit: 7, masqueradeAll: true, syncPeriod: 7s, minSyncPeriod: 2s}", ""},
		{"mode: iptables\nnftables: {masqueradeBit: 7, minSyncPeriod: 2s}", "nftables.masqueradeBit, nftables.minSyncPeriod"},
		{"mode: ipvs\niptables: {masqueradeBit: 7, syncPeriod: 7s}\nipvs: {syncPeriod: 7s, minSyncPeriod: 2s}", "iptables.syncPeriod"},
		{
			"ipvs: {syncPeriod: 7s, scheduler: sh, strictARP: true, tcpTimeout: 1s, tcpFinTimeout: 1s, udpTimeout: 1s, excludeCIDRs: [10.0.0.0/8]}",
			"ipvs.strictARP, ipvs.syncPeriod, ipvs.tcpFinTimeout, ipvs.tcpTimeout, ipvs.udpTimeout",
		},
		{
			"portRange: 1-2\nwindowsRunAsService: true\nconfigSyncPeriod: 1m\nshowHiddenMetricsForVersion: '1.35'",
			"configSyncPeriod, portRange, showHiddenMetricsForVersion, windowsRunAsService",
		},
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
	args := "--ipvs-strict-arp --iptables-localhost-nodeports=false --boot-id-file=/b --machine-id-file=/m --vmodule=a=1 " +
		"--feature-gates=AllBeta=false --iptables-masquerade-bit=7 --ipvs-sync-period=7s"
	want := []string{"set, but without effect here: --boot-id-file, --ipvs-strict-arp, --ipvs-sync-period, " +
		"--iptables-localhost-nodeports, --iptables-masquerade-bit, --machine-id-file, --vmodule, featureGates.AllBeta"}
	c := load(t, strings.Fields(args)...)
	got := warned(c, "without effect")
	if len(got) != 1 || !sameNames(got[0], want[0]) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := warned(load(t, "--proxy-mode=ipvs", "--iptables-sync-period=7s"), "without effect"); len(got) != 1 ||
		!strings.HasSuffix(got[0], ": --iptables-sync-period") {
		t.Errorf("got %q", got)
	}
	c = loadText(t, "ipvs: {strictARP: true}", "--vmodule=a=1", "--machine-id-file=/m")
	if got := warned(c, "without effect"); len(got) != 1 || !sameNames(got[0], "set, but without effect here: --machine-id-file, --vmodule, ipvs.strictARP") {
		t.Errorf("got %q", got)
	}
}

// sameNames compares two lists in any order.
func sameNames(a, b string) bool {
	x, y := strings.Fields(strings.ReplaceAll(a, ",", "")), strings.Fields(strings.ReplaceAll(b, ",", ""))
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

func TestPodsThatCannotBeRecognisedAreAWarning(t *testing.T) {
	const text = "not set, so connections to ClusterIPs"
	for _, fields := range []string{
		"clusterCIDR: 10.244.0.0/16",
		"clusterCIDR: fd00::/56",
		"detectLocalMode: NodeCIDR",
		"nftables: {masqueradeAll: true}", // makes no difference
	} {
		if got := warned(loadText(t, fields), text); len(got) > 0 {
			t.Errorf("%s: %v", fields, got)
		}
	}
	if got := warned(loadText(t, ""), "clusterCIDR: "+text); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	if got := warned(load(t), "--cluster-cidr: "+text); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestDeprecatedPortsAreAWarning(t *testing.T) {
	if got := warned(load(t, "--healthz-port=0"), "deprecated"); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	if got := warned(load(t), "deprecated"); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}
