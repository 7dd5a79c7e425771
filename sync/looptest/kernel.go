package looptest

import (
	"sync/atomic"

	"kube-vmap/nft"
	"kube-vmap/sync"
)

// kernelMeter counts reads, batches and foreign changes, and can make batches wait.
type kernelMeter struct {
	kernel         sync.Kernel
	reads, batches atomic.Int64 // batches that were accepted
	foreign        atomic.Uint32
	gate           chan struct{} // capacity one; batches wait for its token
}

// Read counts and reads.
func (m *kernelMeter) Read() (nft.Tables, error) {
	m.reads.Add(1)
	return m.kernel.Read()
}

// ReadOnce counts and reads.
func (m *kernelMeter) ReadOnce() (nft.Tables, bool, error) {
	have, err := m.Read()
	return have, true, err
}

// Apply applies and counts.
func (m *kernelMeter) Apply(b nft.Batch) (nft.Applied, error) {
	m.hold()
	defer m.release()
	a, err := m.kernel.Apply(b)
	if err == nil {
		m.batches.Add(1)
	}
	return a, err
}

// ForeignChanges returns the number of foreign changes.
func (m *kernelMeter) ForeignChanges() (uint32, error) { return m.foreign.Load(), nil }

// hold makes batches wait.
func (m *kernelMeter) hold() { m.gate <- struct{}{} }

// release lets batches through.
func (m *kernelMeter) release() {
	select {
	case <-m.gate:
	default:
	}
}
