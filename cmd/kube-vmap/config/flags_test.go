package config

import (
	"bufio"
	"cmp"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// kubeProxyFlags returns the defaults of kube-proxy's flags by name.
func kubeProxyFlags(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open("testdata/flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), " "); name != "#" {
			flags[name] = value
		}
	}
	return flags
}

// ourFlags returns our flags by name.
func ourFlags() map[string]*pflag.Flag {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	NewFlags().AddTo(fs)
	flags := map[string]*pflag.Flag{}
	fs.VisitAll(func(f *pflag.Flag) { flags[f.Name] = f })
	return flags
}

func TestFlagsAreKubeProxysAndExtensions(t *testing.T) {
	want := kubeProxyFlags(t)
	delete(want, "version") // the program's, like --help
	got := ourFlags()
	for name, flag := range got {
		_, isKubeProxys := want[name]
		if _, isExtension := flag.Annotations[extension]; isExtension == isKubeProxys {
			t.Errorf("--%s: is a flag of kube-proxy: %t; is marked as an extension: %t", name, isKubeProxys, isExtension)
		}
	}
	for name := range want {
		if got[name] == nil {
			t.Errorf("--%s of kube-proxy is missing", name)
		}
	}
}

// TestEveryOptionHasAFlag sets the flags without a field one by one, without a file and
// with one.
func TestEveryOptionHasAFlag(t *testing.T) {
	missing := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Options]()) {
		missing[f.Name] = true
	}
	for _, file := range []string{"", write(t, header)} {
		for name, flag := range ourFlags() {
			if len(flag.Annotations[fieldKey]) > 0 || name == "config" || strings.HasSuffix(name, "-id-file") {
				continue
			}
			value := map[string]string{"false": "true", "true": "false", "10m0s": "0s", MarkerAuto: MarkerNever, "20": "7", "50": "7", "report": "avoid"}[flag.DefValue]
			c := load(t, "--config="+file, "--"+name+"="+cmp.Or(value, "other"))
			changed := changedOptions(c.Options)
			if len(changed) != 1 || len(warned(c, "--"+name)) > 0 {
				t.Errorf("--%s sets the options %q, want one; warnings %q", name, changed, c.Warnings)
				continue
			}
			delete(missing, changed[0])
		}
	}
	if len(missing) > 0 {
		t.Errorf("options without a flag: %v", missing)
	}
}

// changedOptions returns the names of options that do not have their default.
func changedOptions(o Options) (names []string) {
	got, usual := reflect.ValueOf(o), reflect.ValueOf(defaultOptions())
	for i := range got.NumField() {
		if got.Field(i).Interface() != usual.Field(i).Interface() {
			names = append(names, got.Type().Field(i).Name)
		}
	}
	return names
}

// TestUnusedFlagsAreThoseWithoutEffect compares the last section of help with the
// fields that have an effect in the default mode.
func TestUnusedFlagsAreThoseWithoutEffect(t *testing.T) {
	c := load(t)
	for name, flag := range ourFlags() {
		fields := flag.Annotations[fieldKey]
		if len(fields) == 0 || name == "feature-gates" || name == "ipvs-exclude-cidrs" { // depends on its value; at takeover only
			continue
		}
		if unused := flag.Annotations[sectionKey][0] == unusedTitle; unused == c.hasEffect(fields[0]) {
			t.Errorf("--%s: in the last section: %t; %s has an effect: %t", name, unused, fields[0], !unused)
		}
	}
}

func TestCompletedValuesAreValid(t *testing.T) {
	more := map[string]string{ // words that need another flag
		"BridgeInterface": "--pod-bridge-interface=br0", "InterfaceNamePrefix": "--pod-interface-name-prefix=veth",
	}
	for name, flag := range ourFlags() {
		for _, word := range flag.Annotations[wordsKey] {
			load(t, cmp.Or(more[word], "--v=0"), "--"+name+"="+word)
		}
	}
}

func TestFlagsHaveKubeProxysDefaultsExceptThese(t *testing.T) {
	others := map[string]string{
		"proxy-mode":               "nftables",
		"iptables-min-sync-period": "",
		"ipvs-min-sync-period":     "",
		// kube-proxy treats an empty value like these.
		"detect-local-mode":  "ClusterCIDR",
		"nodeport-addresses": "[primary]",
	}
	ours := ourFlags()
	for name, want := range kubeProxyFlags(t) {
		if other, ok := others[name]; ok {
			want = other
		}
		flag := ours[name]
		if flag == nil {
			continue // TestFlagsAreKubeProxysAndExtensions reports it
		}
		got := flag.DefValue
		if slices.Contains([]string{"false", "0", "0s", "[]"}, got) {
			got = "" // help does not show it
		}
		if got != want {
			t.Errorf("--%s: got %q, want %q", name, got, want)
		}
	}
}

func TestVerbosityHasAShorthand(t *testing.T) {
	for _, args := range [][]string{{"-v5"}, {"-v=5"}, {"-v", "5"}, {"--v=5"}} {
		if got := load(t, args...).Verbosity(); got != 5 {
			t.Errorf("%v: got %d", args, got)
		}
	}
}

func TestUnderscoresInNamesOfFlagsAreDashes(t *testing.T) {
	c := load(t, "--proxy_mode=nftables", "--iptables_min_sync-period=7s")
	if got := c.section().minSyncPeriod.String(); got != "7s" {
		t.Errorf("got %s", got)
	}
}

func TestUsagesShowEveryFlag(t *testing.T) {
	usages := NewFlags().Usages(120)
	used, unused, ok := strings.Cut(usages, unusedTitle)
	if !ok || strings.Contains(used, "no effect") {
		t.Error("flags without effect are not in a section of their own")
	}
	for name, flag := range ourFlags() {
		if strings.Count(usages, "--"+name+" ") == 0 {
			t.Errorf("--%s is missing", name)
		}
		if strings.Contains(unused, "\n      --"+name+" ") && !strings.HasPrefix(flag.Usage, "no effect") {
			t.Errorf("--%s does not state that it has no effect: %s", name, flag.Usage)
		}
	}
	for line := range strings.Lines(usages) {
		if len(line) > 121 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// fieldsOfFlags are flags and the fields that they set.
var fieldsOfFlags = []struct {
	arg, field string
	want       any
}{
	{"--kubeconfig=/k", "clientConnection.kubeconfig", "/k"},
	{"--kube-api-content-type=application/json", "clientConnection.contentType", "application/json"},
	{"--kube-api-qps=7.5", "clientConnection.qps", 7.5},
	{"--kube-api-burst=70", "clientConnection.burst", int64(70)},
	{"--hostname-override= Worker-1 ", "hostnameOverride", "worker-1"},
	{"--proxy-mode=ipvs", "mode", "ipvs"},
	{"--proxy-mode=", "mode", "nftables"},
	{"--masquerade-all", "nftables.masqueradeAll", true},
	{"--nodeport-addresses=192.0.2.0/24,2001:db8::/32", "nodePortAddresses", []any{"192.0.2.0/24", "2001:db8::/32"}},
	{"--nodeport-addresses=primary,localhost", "nodePortAddresses", []any{"primary", "localhost"}},
	{"--nodeport-addresses=", "nodePortAddresses", []any{"primary"}},
	{"--bind-address=192.0.2.1", "bindAddress", "192.0.2.1"},
	{"--iptables-sync-period=7s", "nftables.syncPeriod", "7s"},
	{"--iptables-min-sync-period=7s", "nftables.minSyncPeriod", "7s"},
	{"--detect-local-mode=NodeCIDR", "detectLocalMode", "NodeCIDR"},
	{"--detect-local-mode=", "detectLocalMode", "ClusterCIDR"},
	{"--cluster-cidr=10.244.0.0/16,fd00:10:244::/56", "clusterCIDR", "10.244.0.0/16,fd00:10:244::/56"},
	{"--pod-bridge-interface=cbr0", "detectLocal.bridgeInterface", "cbr0"},
	{"--pod-interface-name-prefix=veth", "detectLocal.interfaceNamePrefix", "veth"},
	{"--healthz-bind-address=127.0.0.1:1", "healthzBindAddress", "127.0.0.1:1"},
	{"--healthz-port=0", "healthzBindAddress", ""},
	{"--metrics-bind-address=[::]:1", "metricsBindAddress", "[::]:1"},
	{"--metrics-port=0", "metricsBindAddress", ""},
	{"--bind-address-hard-fail", "bindAddressHardFail", true},
	{"--profiling", "enableProfiling", true},
	{"--feature-gates=ComponentFlagz=false", "featureGates.ComponentFlagz", false},
	{"--oom-score-adj=-5", "oomScoreAdj", int64(-5)},
	{"--conntrack-max-per-core=0", "conntrack.maxPerCore", int64(0)},
	{"--conntrack-min=7", "conntrack.min", int64(7)},
	{"--conntrack-tcp-timeout-established=0", "conntrack.tcpEstablishedTimeout", "0s"},
	{"--conntrack-tcp-timeout-close-wait=7s", "conntrack.tcpCloseWaitTimeout", "7s"},
	{"--conntrack-tcp-be-liberal", "conntrack.tcpBeLiberal", true},
	{"--conntrack-udp-timeout=7s", "conntrack.udpTimeout", "7s"},
	{"--conntrack-udp-timeout-stream=7s", "conntrack.udpStreamTimeout", "7s"},
	{"--v=7", "logging.verbosity", int64(7)},
	{"--logging-format=json", "logging.format", "json"},
	{"--iptables-masquerade-bit=7", "iptables.masqueradeBit", int64(7)},
	{"--ipvs-sync-period=7s", "ipvs.syncPeriod", "7s"},
	{"--ipvs-min-sync-period=7s", "ipvs.minSyncPeriod", "7s"},
	{"--ipvs-scheduler=sh", "ipvs.scheduler", "sh"},
	{"--ipvs-exclude-cidrs=192.0.2.0/24,2001:db8::/32", "ipvs.excludeCIDRs", []any{"192.0.2.0/24", "2001:db8::/32"}},
	{"--ipvs-strict-arp", "ipvs.strictARP", true},
	{"--ipvs-tcp-timeout=7s", "ipvs.tcpTimeout", "7s"},
	{"--ipvs-tcpfin-timeout=7s", "ipvs.tcpFinTimeout", "7s"},
	{"--ipvs-udp-timeout=7s", "ipvs.udpTimeout", "7s"},
	{"--iptables-localhost-nodeports=false", "iptables.localhostNodePorts", false},
	{"--config-sync-period=7s", "configSyncPeriod", "7s"},
	{"--show-hidden-metrics-for-version=1.35", "showHiddenMetricsForVersion", "1.35"},
	{"--vmodule=a=1", "logging.vmodule", []any{map[string]any{"filePattern": "a", "verbosity": int64(1)}}},
	{"--log-flush-frequency=7s", "logging.flushFrequency", "7s"},
	{"--log-text-split-stream", "logging.options.text.splitStream", true},
	{"--log-json-split-stream", "logging.options.json.splitStream", true},
	{"--log-text-info-buffer-size=4Ki", "logging.options.text.infoBufferSize", "4Ki"},
	{"--log-json-info-buffer-size=4Ki", "logging.options.json.infoBufferSize", "4Ki"},
}

// TestEachFlagSetsItsField gives one flag at a time.
func TestEachFlagSetsItsField(t *testing.T) {
	tested := map[string]bool{}
	for _, test := range fieldsOfFlags {
		name, _, _ := strings.Cut(strings.TrimPrefix(test.arg, "--"), "=")
		tested[name] = true
		c := load(t, test.arg)
		got, err := flattenConfig(&c.Proxy)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got[test.field], test.want) {
			t.Errorf("%s: %s is %#v, want %#v", test.arg, test.field, got[test.field], test.want)
		}
		if fields := ourFlags()[name].Annotations[fieldKey]; !slices.Contains(fields, strings.TrimSuffix(test.field, ".ComponentFlagz")) {
			t.Errorf("--%s says it sets %v", name, fields)
		}
	}
	for name, flag := range ourFlags() {
		if len(flag.Annotations[fieldKey]) > 0 && !tested[name] {
			t.Errorf("--%s is not tested", name)
		}
	}
}

func TestFlagsSetServerAddresses(t *testing.T) {
	for _, test := range []struct {
		args             string
		healthz, metrics string
	}{
		{"", "0.0.0.0:10256", "127.0.0.1:10249"},
		{"--bind-address=192.0.2.1", "0.0.0.0:10256", "127.0.0.1:10249"},
		{"--bind-address=2001:db8::1", "[::]:10256", "[::1]:10249"},
		{"--healthz-bind-address=192.0.2.1 --metrics-bind-address=192.0.2.2:2", "192.0.2.1:10256", "192.0.2.2:2"},
		{"--healthz-bind-address=2001:db8::1 --metrics-bind-address=::", "[2001:db8::1]:10256", "[::]:10249"},
		{"--healthz-bind-address= --metrics-bind-address=", "", ""},
		{"--healthz-port=0 --metrics-port=0", "", ""},
		{"--healthz-bind-address=192.0.2.1:1 --healthz-port=0", "", "127.0.0.1:10249"},
		{"--healthz-bind-address=192.0.2.1 --healthz-port=7 --metrics-bind-address=::1 --metrics-port=8", "192.0.2.1:7", "[::1]:8"},
		// As in kube-proxy, since the default has a port.
		{"--healthz-port=7 --metrics-port=8", "0.0.0.0:10256", "127.0.0.1:10249"},
	} {
		c := load(t, strings.Fields(test.args)...)
		if c.Proxy.HealthzBindAddress != test.healthz || c.Proxy.MetricsBindAddress != test.metrics {
			t.Errorf("%s: got %q and %q", test.args, c.Proxy.HealthzBindAddress, c.Proxy.MetricsBindAddress)
		}
	}
	for fields, want := range map[string][2]string{
		"":                           {"0.0.0.0:10256", "127.0.0.1:10249"},
		"bindAddress: '2001:db8::1'": {"[::]:10256", "[::1]:10249"},
		"healthzBindAddress: 192.0.2.1\nmetricsBindAddress: '2001:db8::1'": {"192.0.2.1:10256", "[2001:db8::1]:10249"},
		"healthzBindAddress: '[::]:1'\nmetricsBindAddress: '0.0.0.0:2'":    {"[::]:1", "0.0.0.0:2"},
	} {
		if c := loadText(t, fields).Proxy; [...]string{c.HealthzBindAddress, c.MetricsBindAddress} != want {
			t.Errorf("%s: got %q and %q", fields, c.HealthzBindAddress, c.MetricsBindAddress)
		}
	}
}
