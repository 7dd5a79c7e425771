package cluster_test

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
)

// asMounted runs what follows the two folders as in a container that has the first
// as /var/lib/kube-proxy and the second as the mount of a ServiceAccount.
const asMounted = `
config=$1 account=$2
shift 2
mount -t tmpfs tmpfs /var/lib
mkdir /var/lib/kube-proxy
cp "$config"/* /var/lib/kube-proxy/
mount -t tmpfs tmpfs /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
cp "$account"/* /run/secrets/kubernetes.io/serviceaccount/
exec "$@"`

// kubeadmKubeconfig is the kubeconfig that kubeadm has besides config.conf
// (cmd/kubeadm/app/phases/addons/proxy/manifests.go).
const kubeadmKubeconfig = `apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
    server: %s
  name: default
contexts:
- context:
    cluster: default
    namespace: default
    user: default
  name: default
users:
- name: default
  user:
    tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
current-context: default
`

// TestKubeadmConfigurationRunsUnchanged has every file where kubeadm's DaemonSet
// has it, and its command line.
func TestKubeadmConfigurationRunsUnchanged(t *testing.T) {
	t.Parallel()
	c := newScene(t, clustertest.New, lab.Options{Pods: 2})
	to := c.manualService(t, "web", c.Lab.Pods[0])
	config, account := t.TempDir(), t.TempDir()
	conf, err := os.ReadFile(filepath.Join(clustertest.Root(t), "cmd/kube-vmap/config/testdata/kubeadm.yaml"))
	clustertest.Must(t, err)
	c.Deploy(t)
	token, err := c.Kubectl(clustertest.Context(t), "create", "token", "kube-vmap", "-n", "kube-system")
	clustertest.Must(t, err)
	for path, text := range map[string][]byte{
		filepath.Join(config, "config.conf"):     conf,
		filepath.Join(config, "kubeconfig.conf"): fmt.Appendf(nil, kubeadmKubeconfig, c.Server),
		filepath.Join(account, "ca.crt"):         c.CACertificate(),
		filepath.Join(account, "token"):          []byte(strings.TrimSpace(token)),
	} {
		clustertest.Must(t, os.WriteFile(path, text, 0o600))
	}
	p := c.Run(t, c.Lab.Node, process.Config{Program: "unshare", Args: []string{
		"--mount", "sh", "-ec", asMounted, "sh", config, account, clustertest.Program(t),
		"--config=/var/lib/kube-proxy/config.conf", "--hostname-override=" + c.NodeName(c.Lab.Node),
	}})
	clustertest.Must(t, p.AwaitReady(clustertest.Context(t)))
	for i, r := range strings.Split(leaves(t, conf)["clusterCIDR"].(string), ",") {
		p.Truth.Config.Rules.Pods[model.Families[i]] = netip.MustParsePrefix(r)
	}
	p.AwaitTruth(t)
	checkAnswered(t, c.clients, to, "pod-1")
	if lines := linesOf(p, "configuration"); len(lines) > 0 {
		t.Errorf("it logs %v", lines)
	}
}

// TestConfigurationEqualsKubeProxys lets each of the two read the other's configuration,
// and compares the configurations that both print.
func TestConfigurationEqualsKubeProxys(t *testing.T) {
	t.Parallel()
	ours := clustertest.Program(t)
	theirs, err := plane.Program("kube-proxy")
	clustertest.Must(t, err)
	dir := t.TempDir()
	written := func(program, name string, args ...string) (path, log string) {
		path = filepath.Join(dir, name)
		out, err := exec.Command(program, append(args, "--write-config-to="+path)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", program, args, err, out)
		}
		return path, string(out)
	}
	const pods = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56"
	kubeProxy, _ := written(theirs, "kube-proxy", pods, "--proxy-mode=nftables")
	kubeVmap, _ := written(ours, "kube-vmap", pods)
	byKubeVmap, log := written(ours, "kube-proxy, read by kube-vmap", "--config="+kubeProxy)
	if strings.Contains(log, "WARN") {
		t.Errorf("kube-vmap reads what kube-proxy wrote and says\n%s", log)
	}
	byKubeProxy, log := written(theirs, "kube-vmap, read by kube-proxy", "--config="+kubeVmap)
	if strings.Contains(log, "\nW") || strings.HasPrefix(log, "W") {
		t.Errorf("kube-proxy reads what kube-vmap wrote and says\n%s", log)
	}

	// kube-proxy drops the periods of modes other than its own, and takes the default.
	forgets := map[string]string{"iptables.syncPeriod": "0s, 30s", "ipvs.syncPeriod": "0s, 30s"}
	prefers := map[string]string{"iptables.syncPeriod": "0s, 30s", "ipvs.syncPeriod": "0s, 30s", "nftables.minSyncPeriod": "1s, 0s"}
	for _, s := range []struct {
		one, other string
		differ     map[string]string
	}{
		{kubeProxy, byKubeVmap, forgets},
		{byKubeProxy, kubeVmap, prefers},
		// See cmd/kube-vmap/config for the defaults that differ, and why.
		{kubeProxy, kubeVmap, prefers},
	} {
		if got := differences(t, s.one, s.other); !maps.Equal(got, s.differ) {
			t.Errorf("between %s and %s differ %v, want %v", s.one, s.other, got, s.differ)
		}
	}

	// Without a mode, kube-proxy uses iptables.
	bare, _ := written(theirs, "bare", pods)
	own := differences(t, bare, kubeVmap)
	if want := []string{
		"iptables.minSyncPeriod", "ipvs.syncPeriod", "mode", "nftables.syncPeriod", "nodePortAddresses[0]",
	}; !slices.Equal(slices.Sorted(maps.Keys(own)), want) {
		t.Errorf("without a mode differ %v, want %v", own, want)
	}
}

// differences returns the fields that differ, with both values.
func differences(t *testing.T, one, other string) map[string]string {
	t.Helper()
	all := [2]map[string]any{}
	for i, path := range []string{one, other} {
		text, err := os.ReadFile(path)
		clustertest.Must(t, err)
		all[i] = leaves(t, text)
	}
	out := map[string]string{}
	for _, fields := range all {
		for path := range fields {
			if a, b := all[0][path], all[1][path]; a != b {
				out[path] = fmt.Sprintf("%v, %v", a, b)
			}
		}
	}
	return out
}

// leaves returns the values of a YAML document by their paths.
func leaves(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var document any
	clustertest.Must(t, yaml.Unmarshal(text, &document))
	out := map[string]any{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, field := range v {
				walk(strings.TrimPrefix(path+"."+name, "."), field)
			}
		case []any:
			for i, item := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), item)
			}
		case nil:
		default:
			out[path] = v
		}
	}
	walk("", document)
	return out
}
