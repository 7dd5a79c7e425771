// Package fake proves the fake kernel of nft/kernel/kerneltest against the real
// one, and runs on the real one the scripts that package sync runs on the fake.
package fake

import (
	"testing"

	"kube-vmap/integration/lab/labtest"
	"kube-vmap/nft/kernel"
)

// realKernel opens the nf_tables of a fresh network namespace, which ends with
// the test.
func realKernel(t testing.TB) *kernel.Kernel {
	t.Helper()
	k, err := kernel.Open(kernel.Config{NetNS: labtest.Alone(t).FD()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}
