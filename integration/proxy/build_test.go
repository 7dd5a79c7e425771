package proxy

import (
	"os"
	"testing"

	"kube-vmap/integration/daemon/built"
)

func TestMain(m *testing.M) { os.Exit(built.Main(m)) }

// program is the path of the built program.
func program(t *testing.T) string {
	t.Helper()
	path, err := built.Path()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
