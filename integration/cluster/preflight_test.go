package cluster_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/preflight"
	"kube-vmap/cmd/programs"
	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/lab"
)

// TestPreflightAsksTheAPIServer runs preflight on a node with the kubeconfig of the proxy, with
// one whose address does not answer, and with one as the manifests have it.
func TestPreflightAsksTheAPIServer(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, lab.Options{})
	for _, tc := range []struct {
		name, kubeconfig string
		want             programs.Verdict
		text             string
	}{
		{"reachable", c.Kubeconfig(t, c.Server), programs.Fine, "v1."},
		{"unreachable", c.Kubeconfig(t, "https://127.0.0.1:1"), programs.Needs, "refused"},
		{
			"not set", filepath.Join(clustertest.Root(t), "deploy", "site", "kubeconfig.conf"), programs.Needs,
			"must be reachable from the node",
		},
	} {
		item := preflightItem(t, c.Lab.Node, "API server", "--kubeconfig", tc.kubeconfig)
		if text := item.Detail + strings.Join(item.Evidence, " "); item.Verdict != tc.want || !strings.Contains(text, tc.text) {
			t.Errorf("%s: %+v, want %s with %q", tc.name, item, tc.want, tc.text)
		}
	}
}

func preflightItem(t *testing.T, n *lab.Node, name string, flags ...string) preflight.Item {
	t.Helper()
	cmd := n.Command(clustertest.Context(t), clustertest.Program(t), append([]string{"preflight", "-o", "json"}, flags...)...)
	out, _ := cmd.Output() // the exit code depends on the machine
	var r preflight.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	i := slices.IndexFunc(r.Items, func(i preflight.Item) bool { return i.Name == name })
	if i < 0 {
		t.Fatalf("no item %q in %+v", name, r)
	}
	return r.Items[i]
}

// TestAPIServerAcceptsTheChart applies what the Helm chart renders with all values, except
// kinds of the Prometheus operator, which this API server does not have. The namespace is
// another one, because ports of a DaemonSet that another test applied would be merged.
func TestAPIServerAcceptsTheChart(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, lab.Options{})
	text, err := os.ReadFile(filepath.Join(clustertest.Root(t), "deploy", "helm", "testdata", "rendered.yaml"))
	clustertest.Must(t, err)
	manifests := slices.DeleteFunc(strings.SplitAfter(string(text), "\n---\n"), func(manifest string) bool {
		return strings.Contains(manifest, "apiVersion: monitoring.coreos.com/")
	})
	file := filepath.Join(t.TempDir(), "chart.yaml")
	chart := strings.ReplaceAll(strings.Join(manifests, ""), "namespace: kube-system", "namespace: "+c.Namespace(t).Name)
	clustertest.Must(t, os.WriteFile(file, []byte(chart), 0o600))
	out, err := c.Kubectl(clustertest.Context(t),
		"apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts", "-f", file)
	clustertest.Must(t, err)
	if count := strings.Count(out, "(server dry run)\n"); count != len(manifests) {
		t.Errorf("the API server accepted %d of %d objects:\n%s", count, len(manifests), out)
	}
}
