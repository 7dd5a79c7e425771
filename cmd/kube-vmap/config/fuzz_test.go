package config

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/equality"
)

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
