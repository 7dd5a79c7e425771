package plugin_test

import (
	"path/filepath"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/plugin"
	"kube-vmap/integration/daemon/built"
)

func TestMain(m *testing.M) { clustertest.Main(m, built.Plugin) }

// sharing are the tests that break no part of the cluster, so that they can share one. Each
// has a namespace of its own.
var sharing = []struct {
	name string
	test func(*testing.T, *plugin.Cluster)
}{
	{"completion", testCompletion},
	{"page", testPage},
	{"permissions", testPermissions},
}

func TestSharedCluster(t *testing.T) {
	t.Parallel()
	c := plugin.New(t, 3)
	// Several of the tests are viewers, too.
	_, err := c.Plane.Kubectl(clustertest.Context(t), "apply", "--server-side", "-k", filepath.Join(clustertest.Root(t), "deploy", "kubectl"))
	clustertest.Must(t, err)
	for _, s := range sharing {
		t.Run(s.name, func(t *testing.T) { s.test(t, c) })
	}
}
