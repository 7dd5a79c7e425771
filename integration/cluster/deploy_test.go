package cluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/lab"
)

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
