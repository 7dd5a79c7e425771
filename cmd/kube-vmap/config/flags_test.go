package config

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/equality"
)

// kubeProxyFlags returns the defaults of kube-proxy's flags by name.
func kubeProxyFlags(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open("testdata/flags.txt")
	must(t, err)
	defer f.Close()
	flags := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), " "); name != "#" {
			flags[name] = value
		}
	}
	return flags
}

func ourFlags() map[string]*pflag.Flag {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	NewFlags().AddTo(fs)
	flags := map[string]*pflag.Flag{}
	fs.VisitAll(func(f *pflag.Flag) { flags[f.Name] = f })
	return flags
}

// TestFlagsAreKubeProxysAndExtensions has those whose default is another one.
func TestFlagsAreKubeProxysAndExtensions(t *testing.T) {
	others := map[string]string{
		"proxy-mode":               "nftables",
		"iptables-min-sync-period": "",
		"ipvs-min-sync-period":     "",
		// kube-proxy treats an empty value like these.
		"detect-local-mode":  "ClusterCIDR",
		"nodeport-addresses": "[primary]",
	}
	kubeProxys := kubeProxyFlags(t)
	delete(kubeProxys, "version") // the program's, like --help
	maps.Copy(kubeProxys, others)
	ours := ourFlags()
	for name, flag := range ours {
		_, isKubeProxys := kubeProxys[name]
		if _, isExtension := flag.Annotations[extension]; isExtension == isKubeProxys {
			t.Errorf("--%s: is a flag of kube-proxy: %t; is marked as an extension: %t", name, isKubeProxys, isExtension)
		}
	}
	for name, want := range kubeProxys {
		flag := ours[name]
		if flag == nil {
			t.Errorf("--%s of kube-proxy is missing", name)
			continue
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
		} else if unused != strings.HasPrefix(flag.Usage, "no effect") {
			t.Errorf("--%s, without effect: %t: %s", name, unused, flag.Usage)
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

// TestEachFlagSetsItsField gives one flag at a time, with another value than the default: its
// field changes to that, and no other does, except for addresses of another family.
func TestEachFlagSetsItsField(t *testing.T) {
	values := map[string]string{
		"bool": "true", "int32": "7", "float32": "7", "duration": "7s", "string": "other", "stringSlice": "192.0.2.0/24,2001:db8::/32",
		"bind-address": "192.0.2.1", "healthz-bind-address": "127.0.0.1:1", "metrics-bind-address": "127.0.0.2:1",
		"healthz-port": "0", "metrics-port": "0", "proxy-mode": "ipvs", "detect-local-mode": "NodeCIDR",
		"cluster-cidr": "10.244.0.0/16,fd00:10:244::/56", "feature-gates": "ComponentFlagz=false", "ipvs-scheduler": "sh",
		"iptables-localhost-nodeports": "false", "logging-format": "json", "v": "7", "vmodule": "a=1",
		"log-text-info-buffer-size": "4Ki", "log-json-info-buffer-size": "4Ki",
	}
	usual := flattened(t, load(t))
	for name, flag := range ourFlags() {
		fields := flag.Annotations[fieldKey]
		if len(fields) == 0 {
			continue
		}
		value := cmp.Or(values[name], values[flag.Value.Type()])
		got := flattened(t, load(t, "--"+name+"="+value))
		var changed []string
		for path := range got {
			if !reflect.DeepEqual(got[path], usual[path]) {
				changed = append(changed, path)
			}
		}
		if len(changed) != 1 || !strings.HasPrefix(changed[0], fields[0]) {
			t.Errorf("--%s=%s sets the fields %v, want %s", name, value, changed, fields[0])
			continue
		}
		is := strings.Trim(strings.ReplaceAll(fmt.Sprint(got[changed[0]]), " ", ","), "[]")
		if _, port := strings.CutSuffix(name, "-port"); port {
			value = ""
		}
		if want := value[strings.LastIndex(value, "=")+1:]; is != want && name != "vmodule" {
			t.Errorf("--%s=%s sets %s to %s", name, value, changed[0], is)
		}
	}
	for arg, want := range map[string][2]string{
		"--hostname-override= Worker-1 ":         {"hostnameOverride", "worker-1"},
		"--proxy-mode=":                          {"mode", "nftables"},
		"--detect-local-mode=":                   {"detectLocalMode", "ClusterCIDR"},
		"--nodeport-addresses=":                  {"nodePortAddresses", "[primary]"},
		"--nodeport-addresses=primary,localhost": {"nodePortAddresses", "[primary localhost]"},
		"--iptables_min_sync-period=7s":          {"nftables.minSyncPeriod", "7s"},
		"-v5":                                    {"logging.verbosity", "5"},
		"-v=5":                                   {"logging.verbosity", "5"},
	} {
		if got := fmt.Sprint(flattened(t, load(t, arg))[want[0]]); got != want[1] {
			t.Errorf("%s sets %s, want %s", arg, got, want[1])
		}
	}
}

// flattened returns the fields of a configuration by their paths.
func flattened(t *testing.T, c *Config) map[string]any {
	t.Helper()
	fields, err := flattenConfig(&c.Proxy)
	must(t, err)
	return fields
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

// FuzzFlags parses any arguments, one per line, and any fields in a file, or no file. A valid
// configuration must be the same after it was written and read.
func FuzzFlags(f *testing.F) {
	for argv, fields := range map[string]string{
		"--cluster-cidr=10.244.0.0/16,fd00:10:244::/56\n--proxy-mode\nipvs\n--ipvs-scheduler=sh":           "",
		"--proxy_mode=iptables\n--masquerade-all\n--iptables-sync-period=7s\n-v=4":                         "",
		"--nodeport-addresses=primary,localhost\n--healthz-port=0\n--metrics-bind-address=[::]:1":          "",
		"--detect-local-mode=InterfaceNamePrefix\n--pod-interface-name-prefix=veth\n--logging-format=json": "",
		"--vmodule=a=1,b=2\n--feature-gates=ComponentFlagz=false,A=true\n--log-json-info-buffer-size=4Ki":  "",
		"--hostname-override= Worker-1 \n--conntrack-min=-1\n--init-only\n--bind-address=::":               "mode: ipvs\nhostnameOverride: b",
		"--manifests=/m\n--cleanup\n--kubeconfig=/k\n--strict-source-ranges=maybe":                         "clusterCIDR: 10.0.0.0/8",
		"--show-hidden-metrics-for-version=1.35\n--config-sync-period=-7s\n--\n--x\nx":                     "logging: {verbosity: 3}",
	} {
		f.Add(argv, fields)
	}
	for _, fields := range []string{
		"clusterCIDR: 10.244.0.0/16, fd00::/56\nnodePortAddresses: [10.0.0.0/8, '2001:db8::/32']",
		"mode: ipvs\nipvs: {scheduler: sh, excludeCIDRs: [10.0.0.0/8]}\nbindAddress: '::1'\n---\n" + header,
		"ipvs: {scheduler: dh}\nnodePortAddresses: [localhost, primary, '::1/128']\nfeatureGates: {AllowServiceExternalIPs: false}",
		"mode: iptables\nmode: iptables\nfeatureGates: {A: true}\nlogging: {flushFrequency: 5, vmodule: [{filePattern: a, verbosity: 1}]}",
		"detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cbr0}\nhealthzBindAddress: '::'\nunknown: [1]",
		"logging: {options: {json: {infoBufferSize: 1Ki, splitStream: true}}, format: json}\nconntrack: {min: 1e3}",
	} {
		f.Add("", fields)
	}
	f.Fuzz(func(t *testing.T, argv, fields string) {
		flags := NewFlags()
		fs := pflag.NewFlagSet("kube-vmap", pflag.ContinueOnError)
		fs.SetOutput(io.Discard)
		fs.Usage = func() {}
		flags.AddTo(fs)
		if fs.Parse(strings.Split(argv, "\n")) != nil {
			return
		}
		flags.file = "" // not a file of this machine
		c, err := flags.Config()
		if fields != "" {
			flags.file = "config.conf"
			c, err = flags.parse([]byte(header + fields))
		}
		if err != nil {
			if c != nil || err.Error() == "" || argv == "" && !strings.HasPrefix(err.Error(), "config.conf: ") {
				t.Fatalf("%q with %+v", err, c)
			}
			return
		}
		if c.Proxy.HealthzBindAddress == "" || c.Proxy.MetricsBindAddress == "" {
			return // only flags can disable a server
		}
		first := written(t, c)
		read := NewFlags()
		read.file = "config.conf"
		again, err := read.parse([]byte(first))
		if err != nil {
			t.Fatalf("what was written is not valid: %v\n%s", err, first)
		}
		if second := written(t, again); second != first || !equality.Semantic.DeepEqual(again.Proxy, c.Proxy) {
			t.Errorf("got %s\nwant %s", second, first)
		}
		if len(warned(again, "unknown")) > 0 {
			t.Errorf("warnings: %v", again.Warnings)
		}
	})
}
