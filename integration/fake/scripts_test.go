package fake

import (
	"testing"

	"kube-vmap/sync"
	"kube-vmap/sync/looptest"
)

func TestScriptsOnTheRealKernel(t *testing.T) {
	looptest.Run(t, looptest.Options{
		Scripts: "../../sync/testdata/scripts/*.txtar",
		Open:    func(t testing.TB) sync.Kernel { return realKernel(t) },
	})
}
