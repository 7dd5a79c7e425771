package plugin_test

import (
	"strings"
	"testing"

	"kube-vmap/integration/cluster/plugin"
)

// testVersion asks all nodes by the plugin, as an administrator and as a viewer.
func testVersion(t *testing.T, c *plugin.Cluster) {
	for _, kubeconfig := range []string{c.AdminKubeconfig(), user(t, c, "viewer", "kube-vmap-viewers")} {
		if out := c.KubectlAs(t, kubeconfig, "vmap", "version"); out.Code != 0 || !strings.Contains(out.Stdout, "of-the-tests on 3 nodes") {
			t.Error(out)
		}
	}
}
