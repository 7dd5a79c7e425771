package neighbour_test

import (
	"os"
	"testing"

	"kube-vmap/integration/daemon"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }
