package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"kube-vmap/model"
)

// loadError returns the error of invalid flags.
func loadError(t *testing.T, args ...string) string {
	t.Helper()
	c, err := parseFlags(t, args...).Config()
	if err == nil {
		t.Fatalf("%v: no error, but %+v", args, c)
	}
	return err.Error()
}

// TestKubeadmsFileRunsUnchanged uses the output of `kubeadm init phase addon kube-proxy
// --print-manifest` (1.36.3; 1.37.2 prints the same) for a dual-stack cluster with mode nftables, and the arguments
// of kubeadm's DaemonSet.
func TestKubeadmsFileRunsUnchanged(t *testing.T) {
	text, err := os.ReadFile("testdata/kubeadm.yaml")
	must(t, err)
	for _, test := range []struct {
		name, old, new string
		warnings       int
	}{
		{"mode nftables", "", "", 0},
		{"no mode", "mode: nftables\n", "mode: \"\"\n", 0},
		{"the default since 1.37", "mode: nftables\n", "mode: iptables\n", 3},
		{"IPv6 node", "bindAddress: 0.0.0.0\n", "bindAddress: '::'\n", 0},
	} {
		path := write(t, strings.Replace(string(text), test.old, test.new, 1))
		c := load(t, "--config="+path, "--hostname-override=Worker-1")
		if n := len(warned(c, "mode: ")); n != test.warnings || n != len(c.Warnings) {
			t.Errorf("%s: warnings: %v", test.name, c.Warnings)
		}
		if (c.Proxy.Mode == ModeNFTables) != (test.warnings == 0) || c.MasqueradeMark() != 1<<14 || c.section().masqueradeAll ||
			c.section().syncPeriod != 30*time.Second || c.section().minSyncPeriod != 0 {
			t.Errorf("%s: %+v", test.name, c.Proxy)
		}
		if name, err := c.NodeName(); err != nil || name != "worker-1" {
			t.Errorf("%s: NodeName: %q, %v", test.name, name, err)
		}
		for _, r := range c.ClusterCIDRs() {
			if !r.IsValid() {
				t.Errorf("%s: ClusterCIDRs: %v", test.name, c.ClusterCIDRs())
			}
		}
		if n := c.NodePorts(); !n.Primary || len(n.Prefixes) > 0 || c.LocalhostNodePorts() != [len(model.Families)]bool{} {
			t.Errorf("%s: NodePorts answer on %v", test.name, c.Proxy.NodePortAddresses)
		}
		if c.Scheduler() != model.SchedulerRandom || !c.Feature(externalIPs) || c.NodeIPs() != (model.Node{}).Addrs {
			t.Errorf("%s: Services have the scheduler %s, the node %v", test.name, c.Scheduler(), c.NodeIPs())
		}
		if c.Proxy.ClientConnection.Kubeconfig != "/var/lib/kube-proxy/kubeconfig.conf" || c.File != path {
			t.Errorf("%s: %+v", test.name, c)
		}
	}
}

func TestDefaultsAreKubeProxysExceptThese(t *testing.T) {
	text, err := os.ReadFile("testdata/kube-proxy.yaml") // kube-proxy --proxy-mode=nftables --write-config-to, 1.36.3 and 1.37.2
	must(t, err)
	var fields map[string]any
	must(t, yaml.Unmarshal(text, &fields))
	want := flatten(fields)
	for path, other := range map[string]string{
		"nftables.minSyncPeriod": "0s",
		// kube-proxy sets the defaults of unused sections when it reads them, not when it
		// writes them.
		"iptables.syncPeriod": "30s",
		"ipvs.syncPeriod":     "30s",
	} {
		want[path] = other
	}
	for name, args := range map[string][]string{"flags": nil, "file": {"--config", write(t, header)}} {
		var fields map[string]any
		must(t, yaml.Unmarshal([]byte(written(t, load(t, args...))), &fields))
		if got := flatten(fields); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v\nwant %v", name, got, want)
		}
	}
}

func TestFileOverridesMostFlags(t *testing.T) {
	c := loadText(t, `
clusterCIDR: 10.244.0.0/16
hostnameOverride: file
oomScoreAdj: -500
logging: {verbosity: 3, format: json, flushFrequency: 6s, vmodule: [{filePattern: file, verbosity: 1}]}
`, "--cluster-cidr=10.0.0.0/8", "--oom-score-adj=7", "--metrics-port=0",
		"--hostname-override=Flag", "-v=4", "--vmodule=flag=2", "--master=https://192.0.2.1")
	if c.Proxy.ClusterCIDR != "10.244.0.0/16" || *c.Proxy.OOMScoreAdj != -500 || c.Proxy.MetricsBindAddress == "" {
		t.Errorf("a flag won over the file: %+v", c.Proxy)
	}
	if c.Proxy.HostnameOverride != "flag" || c.Verbosity() != 4 || len(c.Proxy.Logging.VModule) != 2 || c.Master == "" {
		t.Errorf("the file won over a flag: %+v", c.Proxy)
	}
	if c.Proxy.Logging.Format != "json" || c.Proxy.Logging.FlushFrequency.Duration.Duration != 6*time.Second {
		t.Errorf("a flag that was not given won over the file: %+v", c.Proxy.Logging)
	}
	want := []string{"ignored because of --config: --cluster-cidr, --metrics-port, --oom-score-adj"}
	if got := warned(c, "ignored"); !slices.Equal(got, want) {
		t.Errorf("warnings: %v", c.Warnings)
	}
}

func TestUnknownAndDuplicateFieldsAreOneWarning(t *testing.T) {
	c := loadText(t, "mode: nftables\nclusterCidr: 10.0.0.0/8\nnftables: {bit: 3, masqueradeAll: true}\n"+
		"clusterCIDR: 10.244.0.0/16\noomScoreAdj: 1\noomScoreAdj: 1\n")
	if c.Proxy.ClusterCIDR != "10.244.0.0/16" || !c.section().masqueradeAll || *c.Proxy.OOMScoreAdj != 1 {
		t.Errorf("what is known was not read: %+v", c.Proxy)
	}
	if len(c.Warnings) != 1 {
		t.Errorf("warnings: %v", c.Warnings)
	}
	for _, name := range []string{c.File, `"clusterCidr"`, `"nftables.bit"`, `"oomScoreAdj"`} {
		if !strings.Contains(c.Warnings[0], name) {
			t.Errorf("%s is not in %s", name, c.Warnings[0])
		}
	}
	if strings.Contains(c.Warnings[0], "\n") {
		t.Errorf("more than a line: %s", c.Warnings[0])
	}
}

func TestFileMayBeJSONOrHaveMarkersAndComments(t *testing.T) {
	for _, text := range []string{
		`{"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "clusterCIDR": "10.0.0.0/8"}`,
		"# comment\n---\n" + header + "clusterCIDR: 10.0.0.0/8\n---\n# the end\n",
		"---\n---\n" + header + "clusterCIDR: 10.0.0.0/8\n...\n",
	} {
		if c := load(t, "--config", write(t, text)); c.Proxy.ClusterCIDR != "10.0.0.0/8" || len(c.Warnings) > 0 {
			t.Errorf("%q: %+v", text, c)
		}
	}
}

func TestDocumentsAfterTheFirstAreAWarning(t *testing.T) {
	c := loadText(t, "clusterCIDR: 10.0.0.0/8\n---\n"+header+"clusterCIDR: 11.0.0.0/8\n---\n")
	if c.Proxy.ClusterCIDR != "10.0.0.0/8" || len(warned(c, "only the first of 2 documents is read")) != 1 {
		t.Errorf("%+v", c)
	}
}

func TestInvalidFileIsNamedWithTheReason(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "the file is empty"},
		{"comments", "# nothing\n---\n", "the file is empty"},
		{"no mapping", "nftables", "not a KubeProxyConfiguration"},
		{"no YAML", "a: b: c", "mapping values are not allowed"},
		{"bytes", "\x00\x01\xff", "yaml: "},
		{"no kind", "mode: nftables", "apiVersion: (none), kind: (none) is not supported"},
		{"another kind", "apiVersion: v1\nkind: ConfigMap", "apiVersion: v1, kind: ConfigMap is not supported"},
		{"another version", strings.Replace(header, "v1alpha1", "v1", 1), "apiVersion: kubeproxy.config.k8s.io/v1, "},
		{"wrong type", header + "oomScoreAdj: high", "cannot unmarshal string into Go struct field KubeProxyConfiguration.oomScoreAdj"},
		{"wrong duration", header + "nftables: {syncPeriod: soon}", `invalid duration "soon"`},
		{"wrong gate", header + "featureGates: {A: 1}", "KubeProxyConfiguration.featureGates of type bool"},
		{"wrong list", header + "nodePortAddresses: primary", "KubeProxyConfiguration.nodePortAddresses"},
		{"too large", header + "conntrack: {min: 3000000000}", "cannot unmarshal number 3000000000"},
	} {
		path := write(t, test.text)
		if got := loadError(t, "--config", path); !strings.HasPrefix(got, path+": ") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestOnlySmallRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe, long := filepath.Join(dir, "pipe"), filepath.Join(dir, "long")
	must(t, unix.Mkfifo(pipe, 0o600))
	must(t, os.WriteFile(long, bytes.Repeat([]byte("#\n"), maxSize/2+1), 0o600))
	for file, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file", pipe: "not a regular file", "/dev/zero": "not a regular file", dir: "not a regular file", long: "longer than",
	} {
		if got := loadError(t, "--config="+file); !strings.HasPrefix(got, "--config: ") || !strings.Contains(got, file) || !strings.Contains(got, want) {
			t.Errorf("%s: %s", file, got)
		}
	}
}

// TestFlagsOfDistributions starts with what distributions give to kube-proxy, where no file has it.
// The ones of k3s and RKE2 are from the line "Running kube-proxy" in their logs. Talos has flags or a file
// with the fields of kubeadm's.
func TestFlagsOfDistributions(t *testing.T) {
	const k3s = "--cluster-cidr=10.42.0.0/16 --conntrack-max-per-core=0 --conntrack-tcp-timeout-close-wait=0s " +
		"--conntrack-tcp-timeout-established=0s --healthz-bind-address=127.0.0.1 --hostname-override=node-1 " +
		"--kubeconfig=/var/lib/rancher/k3s/agent/kubeproxy.kubeconfig --proxy-mode=iptables"
	for name, c := range map[string]struct{ flags, clusterCIDR, health string }{
		"k3s":            {k3s, "10.42.0.0/16", "127.0.0.1:10256"},
		"k3s dual stack": {strings.Replace(k3s, "10.42.0.0/16", "10.42.0.0/16,fd42::/48", 1), "10.42.0.0/16,fd42::/48", "127.0.0.1:10256"},
		"RKE2":           {strings.ReplaceAll(k3s, "/k3s/", "/rke2/"), "10.42.0.0/16", "127.0.0.1:10256"},
	} {
		t.Run(name, func(t *testing.T) {
			got := load(t, strings.Fields(c.flags)...)
			if node, err := got.NodeName(); node != "node-1" || err != nil {
				t.Errorf("node %q, %v", node, err)
			}
			if got.Proxy.ClusterCIDR != c.clusterCIDR {
				t.Errorf("cluster CIDR %q", got.Proxy.ClusterCIDR)
			}
			if got.Proxy.HealthzBindAddress != c.health || got.Proxy.Mode != ModeIPTables {
				t.Errorf("health at %s, mode %s", got.Proxy.HealthzBindAddress, got.Proxy.Mode)
			}
			if c := got.Proxy.Conntrack; *c.MaxPerCore != 0 || c.TCPEstablishedTimeout.Duration != 0 || c.TCPCloseWaitTimeout.Duration != 0 {
				t.Errorf("connection tracking: %+v", c)
			}
		})
	}
}
