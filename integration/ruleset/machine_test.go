package ruleset

import (
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// A machine is an empty network namespace, and our sockets in it.
type machine struct {
	t      testing.TB
	host   *lab.Host
	kernel *kernel.Kernel
}

// newMachine returns a machine that exists until the test ends.
func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{t: t, host: labtest.Alone(t)}
	m.kernel = m.open()
	return m
}

// open gives the machine one more program with sockets to nf_tables.
func (m *machine) open() *kernel.Kernel {
	m.t.Helper()
	return labtest.Kernel(m.t, m.host)
}

// apply applies a batch that the kernel must accept.
func (m *machine) apply(b nft.Batch) nft.Applied {
	m.t.Helper()
	a, err := m.kernel.Apply(b)
	if err != nil {
		m.t.Fatalf("apply: %v", err)
	}
	return a
}

// read is what the kernel holds in our tables.
func (m *machine) read() nft.Tables {
	m.t.Helper()
	tables, err := m.kernel.Read()
	if err != nil {
		m.t.Fatalf("read: %v", err)
	}
	return tables
}
