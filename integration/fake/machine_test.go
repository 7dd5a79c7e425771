// Package fake tests the fake kernel of nft/kernel/kerneltest against the real one, and runs
// the scripts of package sync, which that runs on the fake, on the real one.
package fake

import (
	"testing"

	"kube-vmap/integration/lab/labtest"
	"kube-vmap/nft/kernel"
)

// realKernel opens nf_tables in a new network namespace, which is deleted with the test.
func realKernel(t testing.TB) *kernel.Kernel {
	t.Helper()
	return labtest.Kernel(t, labtest.Alone(t))
}
