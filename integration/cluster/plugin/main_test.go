package plugin_test

import (
	"testing"

	"kube-vmap/integration/cluster/clustertest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }
