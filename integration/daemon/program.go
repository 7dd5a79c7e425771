package daemon

import (
	"testing"

	"kube-vmap/integration/daemon/built"
)

// Main provides kube-vmap and runs a package's tests. It returns the exit code.
func Main(m *testing.M) int { return built.Main(m) }

// Program returns the path of kube-vmap.
func Program(t testing.TB) string {
	t.Helper()
	return built.KubeVMap.Path()
}
