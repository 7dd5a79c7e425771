package matrix

import (
	"os"
	"testing"

	"kube-vmap/integration/daemon/built"
)

func TestMain(m *testing.M) { os.Exit(built.Main(m)) }

// buildOnce returns the path of the built program.
func buildOnce() (string, error) { return built.Path() }
