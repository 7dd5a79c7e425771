package sync_test

import (
	"flag"
	"testing"

	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
	"kube-vmap/sync/looptest"
)

var update = flag.Bool("update", false, "rewrite the expectations in scripts")

// TestScripts runs the scripts on a fake kernel; integration/fake runs them on
// the real one.
func TestScripts(t *testing.T) {
	looptest.Run(t, looptest.Options{
		Scripts: "testdata/scripts/*.txtar",
		Open:    func(testing.TB) sync.Kernel { return kerneltest.New() },
		Update:  *update,
	})
}
