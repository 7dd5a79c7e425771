package daemon

import (
	"testing"

	"kube-vmap/integration/daemon/built"
)

// Main runs a package's tests, and then removes what they built. It returns the
// exit code.
func Main(m *testing.M) int { return built.Main(m) }

// program is the path of the program.
func program() (string, error) { return built.Path() }
