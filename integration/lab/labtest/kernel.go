package labtest

import (
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/nft/kernel"
)

// Kernel opens nf_tables of a host. It is closed with the test.
func Kernel(t testing.TB, h *lab.Host) *kernel.Kernel {
	t.Helper()
	k, err := kernel.Open(kernel.Config{NetNS: h.FD()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() }) // what was written is checked
	return k
}
