package daemon

import (
	"testing"

	"kube-vmap/integration/daemon/built"
)

// Main runs a package's tests, and then removes the built program. It returns the
// exit code.
func Main(m *testing.M) int { return built.Main(m) }

// Program returns the path of the built program.
func Program(t testing.TB) string {
	t.Helper()
	path, err := built.Path()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
