package config

import (
	"slices"
	"strings"
	"testing"

	"kube-vmap/model"
)

func TestErrorsNameTheField(t *testing.T) {
	for _, test := range []struct{ fields, want string }{
		{"mode: kernelspace", `mode: Unsupported value: "kernelspace"`},
		{"nftables: {masqueradeBit: 32}", "nftables.masqueradeBit: Invalid value: 32"},
		{"nftables: {masqueradeBit: -1}", "nftables.masqueradeBit: "},
		{"nftables: {syncPeriod: -1s}", "nftables.syncPeriod: "},
		{"nftables: {minSyncPeriod: -1s}", "nftables.minSyncPeriod: "},
		{"nftables: {minSyncPeriod: 31s}", "nftables.minSyncPeriod: "},
		{"mode: iptables\niptables: {masqueradeBit: 32}", "iptables.masqueradeBit: "},
		{"mode: iptables\niptables: {minSyncPeriod: 1m}", "iptables.minSyncPeriod: "},
		{"mode: ipvs\nipvs: {syncPeriod: -1s}", "ipvs.syncPeriod: "},
		{"mode: ipvs\nipvs: {excludeCIDRs: [10.0.0.0/8, x]}", "ipvs.excludeCIDRs[1]: "},
		{"ipvs: {excludeCIDRs: [10.0.0.1]}", "ipvs.excludeCIDRs[0]: "},
		{"hostnameOverride: Bad Name/../x", "hostnameOverride: "},
		{"oomScoreAdj: 1001", "oomScoreAdj: "},
		{"oomScoreAdj: -1001", "oomScoreAdj: "},
		{"clientConnection: {burst: -1}", "clientConnection.burst: "},
		{"conntrack: {maxPerCore: -1}", "conntrack.maxPerCore: "},
		{"conntrack: {min: -1}", "conntrack.min: "},
		{"conntrack: {tcpEstablishedTimeout: -1s}", "conntrack.tcpEstablishedTimeout: "},
		{"conntrack: {tcpCloseWaitTimeout: -1s}", "conntrack.tcpCloseWaitTimeout: "},
		{"conntrack: {udpTimeout: -1s}", "conntrack.udpTimeout: "},
		{"conntrack: {udpStreamTimeout: -1s}", "conntrack.udpStreamTimeout: "},
		{"bindAddress: localhost", "bindAddress: "},
		{"healthzBindAddress: localhost", "healthzBindAddress: "},
		{"healthzBindAddress: localhost:80", "healthzBindAddress: "},
		{"healthzBindAddress: 0.0.0.0:0", "healthzBindAddress: "},
		{"metricsBindAddress: '[::1]'", "metricsBindAddress: "},
		{"metricsBindAddress: '[::1]:65536'", "metricsBindAddress: "},
		{"metricsBindAddress: '[::1]:http'", "metricsBindAddress: "},
		{"nodePortAddresses: [Primary]", "nodePortAddresses[0]: "},
		{"nodePortAddresses: ['2001:db8::/32', primary, eth0]", "nodePortAddresses[2]: "},
		{"nodePortAddresses: ['::ffff:10.0.0.0/104']", "nodePortAddresses[0]: "},
		{"nodePortAddresses: [localhost, primary, localhost]", `nodePortAddresses[2]: Duplicate value: "localhost"`},
		{"detectLocalMode: Guess", `detectLocalMode: Unsupported value: "Guess"`},
		{"detectLocalMode: BridgeInterface", "detectLocal.bridgeInterface: "},
		{"detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: abcdefghijklmnop}", "detectLocal.bridgeInterface: "},
		{"detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: a/b}", "detectLocal.bridgeInterface: "},
		{"detectLocalMode: InterfaceNamePrefix", "detectLocal.interfaceNamePrefix: "},
		{"detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: abcdefghijklmnop}", "detectLocal.interfaceNamePrefix: "},
		{"detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: 'a b'}", "detectLocal.interfaceNamePrefix: "},
		{"clusterCIDR: 10.244.0.0", "clusterCIDR: "},
		{"clusterCIDR: '10.244.0.0/16,'", "clusterCIDR: "},
		{"clusterCIDR: 10.244.0.0/16,10.245.0.0/16", "clusterCIDR: "},
		{"clusterCIDR: 10.244.0.0/16,fd00::/56,10.245.0.0/16", "clusterCIDR: "},
		{"logging: {format: xml}", `logging.format: Unsupported value: "xml"`},
		{"logging: {verbosity: 3000000000}", "logging.verbosity: "},
		{"logging: {flushFrequency: -1s}", "logging.flushFrequency: "},
		{"logging: {vmodule: [{filePattern: 'a=b', verbosity: 1}]}", "logging.vmodule[0]: "},
	} {
		path := write(t, header+test.fields)
		got := loadError(t, "--config", path)
		if !strings.HasPrefix(got, path+": "+test.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want %q", test.fields, got, test.want)
		}
	}
}

func TestErrorsNameTheFlag(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--proxy-mode=kernelspace", `--proxy-mode: Unsupported value: "kernelspace"`},
		{"--iptables-sync-period=0", "--iptables-sync-period: "},
		{"--iptables-min-sync-period=31s", "--iptables-min-sync-period: "},
		{"--proxy-mode=iptables --iptables-min-sync-period=31s", "--iptables-min-sync-period: "},
		{"--proxy-mode=ipvs --ipvs-sync-period=0", "--ipvs-sync-period: "},
		{"--proxy-mode=ipvs --ipvs-exclude-cidrs=x", "--ipvs-exclude-cidrs: "},
		{"--kube-api-qps=NaN", "--kube-api-qps: "},
		{"--nodeport-addresses=10.0.0.0/8,x", "--nodeport-addresses: "},
		{"--nodeport-addresses=all,all", "--nodeport-addresses: Duplicate value"},
		{"--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix: "},
		{"--detect-local-mode=InterfaceNamePrefix --pod-interface-name-prefix=v\xff", "--pod-interface-name-prefix: "},
		{"--log-flush-frequency=0", "--log-flush-frequency: "},
		{"--probation=-1s", "--probation: "},
		{"--kube-proxy-marker=sometimes", `--kube-proxy-marker: Unsupported value: "sometimes"`},
		{"--passive-health-checks=default", `--passive-health-checks: Unsupported value: "default"`},
		{"--passive-health-checks=", `--passive-health-checks: Unsupported value: ""`},
		{"--passive-health-checks-max-percent=0", "--passive-health-checks-max-percent: "},
		{"--passive-health-checks-max-percent=101", "--passive-health-checks-max-percent: "},
	} {
		if got := loadError(t, strings.Fields(test.args)...); !strings.HasPrefix(got, test.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want %q", test.args, got, test.want)
		}
	}
	if got := loadError(t, "--hostname-override= \t"); !strings.HasPrefix(got, "--hostname-override: ") {
		t.Errorf("got %q", got)
	}
}

func TestErrorsOfFlagsThatWinNameTheFlagAndOthersTheFile(t *testing.T) {
	path := write(t, header+"oomScoreAdj: 5000\nlogging: {flushFrequency: -1s}")
	got := loadError(t, "--config", path, "--logging-format=xml", "--hostname-override= ", "--oom-score-adj=1", "--probation=-1s")
	for _, want := range []string{"--hostname-override: ", "\n--probation: ", "\n--logging-format: ", "\n" + path + ": oomScoreAdj: ", "\nlogging.flushFrequency: "} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not once in %s", want, got)
		}
	}
}

func TestBoundaryValuesAreValid(t *testing.T) {
	for _, fields := range []string{
		"nftables: {masqueradeBit: 0}",
		"nftables: {masqueradeBit: 31}",
		"nftables: {minSyncPeriod: 30s, syncPeriod: 30s}",
		"oomScoreAdj: -1000",
		"oomScoreAdj: 1000",
		"conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}",
		"detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: abcdefghijklmno}",
		"detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: v}",
		"detectLocalMode: NodeCIDR",
		"mode: ipvs\nnftables: {masqueradeBit: 99}", // as in kube-proxy
		"ipvs: {syncPeriod: -1s}",
		"healthzBindAddress: '[::1]:65535'",
		"logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}], options: {json: {splitStream: true}}}",
	} {
		loadText(t, fields)
	}
}

func TestServiceProxyNames(t *testing.T) {
	defer model.SetProxyName("")
	for name, valid := range map[string]bool{
		"": true, "edge": true, "A_b.c-1": true, strings.Repeat("x", 53): true,
		strings.Repeat("x", 54): false, "-a": false, "a.": false, "_": false, "a/b": false, "a b": false, "\u00e9": false,
	} {
		model.SetProxyName("before")
		err := SetProxyName(name)
		if valid != (err == nil) || valid != (model.ProxyName() == name) {
			t.Errorf("%q: the name is %q, and %v", name, model.ProxyName(), err)
		}
	}
}

func TestNamedProxyNeedsOtherPorts(t *testing.T) {
	const healthz, metrics = "--healthz-bind-address: ", "--metrics-bind-address: "
	for args, want := range map[string][]string{
		"":                          nil,
		"--service-proxy-name=edge": {healthz, metrics},
		"--service-proxy-name=edge --metrics-bind-address=[::1]:1":                      {healthz},
		"--service-proxy-name=edge --healthz-port=0 --metrics-bind-address=[::1]:10256": {metrics},
		"--service-proxy-name=edge --healthz-port=0 --metrics-bind-address=[::1]:1":     nil,
	} {
		err := load(t, strings.Fields(args)...).CheckPorts()
		for _, name := range []string{healthz, metrics} {
			if got := err != nil && strings.Contains(err.Error(), name); got != slices.Contains(want, name) {
				t.Errorf("%s: %v, want errors of %q", args, err, want)
			}
		}
	}
}
