package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigure runs deploy/configure with a kubectl that prints the keys of a ConfigMap. With the
// real one, integration/cluster.TestDeployReadmeCommandsWork runs it.
func TestConfigure(t *testing.T) {
	const (
		kubeconfig = "kind: Config\nclusters:\n- cluster:\n    server: https://api.example.org:6443"
		config     = "kind: KubeProxyConfiguration\nclusterCIDR: 10.244.0.0/16\nconntrack:\n  maxPerCore: 0\nmode: \"\"\noomScoreAdj: null"
	)
	for name, c := range map[string]struct {
		keys        map[string]string
		out, failed string
	}{
		"of kubeadm": {
			keys: map[string]string{"kubeconfig.conf": kubeconfig, "config.conf": config},
			out: "deploy/site/kubeconfig.conf:\n  kind: Config\n  clusters:\n  - cluster:\n      server: https://api.example.org:6443\n" +
				"deploy/site/config.conf:\n  kind: KubeProxyConfiguration\n  clusterCIDR: 10.244.0.0/16\n" +
				"  conntrack:\n    maxPerCore: 0\n  oomScoreAdj: -997\n",
		},
		"health on loopback": {
			keys: map[string]string{"kubeconfig.conf": "server: https://api.example.org", "config.conf": "kind: KubeProxyConfiguration\nhealthzBindAddress: 127.0.0.1:10256"},
			out: "deploy/site/kubeconfig.conf:\n  server: https://api.example.org\ndeploy/site/config.conf:\n  kind: KubeProxyConfiguration\n  healthzBindAddress: 127.0.0.1:10256\n" +
				"healthzBindAddress is 127.0.0.1:10256: the probes must follow (\"Probes\" in deploy/README.md)\n",
		},
		"without kubeconfig": {keys: map[string]string{"config.conf": config}, failed: `kubeconfig.conf has no line "server:"`},
		"without a server":   {keys: map[string]string{"kubeconfig.conf": "kind: Config", "config.conf": config}, failed: `kubeconfig.conf has no line "server:"`},
		"without config":     {keys: map[string]string{"kubeconfig.conf": kubeconfig, "config": config}, failed: `config.conf has no line "kind:"`},
		"no ConfigMap":       {failed: `configmaps "kube-proxy" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.CopyFS(filepath.Join(dir, "site"), os.DirFS("site")))
			must(t, os.WriteFile(filepath.Join(dir, "configure"), read(t, "configure"), 0o700))
			kubectl := "#!/bin/sh\n[ \"$1\" = --context=mine ] || exit 9\nfor last; do :; done\ncase $last in\n"
			for key, text := range c.keys {
				kubectl += "'jsonpath={.data." + strings.ReplaceAll(key, ".", `\.`) + "}') printf '%s' '" + text + "' ;;\n"
			}
			if c.keys == nil {
				kubectl += "*) echo 'configmaps \"kube-proxy\" not found' >&2; exit 1 ;;\n"
			}
			must(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectl+"esac\n"), 0o700))
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "configure"), "--context=mine")
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			got := map[string]string{}
			for _, file := range []string{"kubeconfig.conf", "config.conf"} {
				text, readErr := os.ReadFile(filepath.Join(dir, "site", file))
				must(t, readErr)
				got[file] = string(text)
			}
			if c.failed != "" {
				if err == nil || !strings.Contains(string(out), c.failed) {
					t.Errorf("%v: %s\nwant %s", err, out, c.failed)
				}
				if got["kubeconfig.conf"] != string(read(t, "site/kubeconfig.conf")) || got["config.conf"] != string(read(t, "site/config.conf")) {
					t.Errorf("wrote %q", got)
				}
				return
			}
			if err != nil || string(out) != c.out {
				t.Errorf("%v: printed %q, want %q", err, out, c.out)
			}
			for file, text := range got {
				if text != strings.ReplaceAll(c.keys[file], "oomScoreAdj: null", "oomScoreAdj: -997")+"\n" {
					t.Errorf("%s: %q", file, text)
				}
			}
		})
	}
}
