package looptest

import (
	stdsync "sync"

	"kube-vmap/nft"
	"kube-vmap/sync"
)

// Loop and test take turns under synctest. The race detector does not know that, hence the locks.

// kernelMeter counts reads, batches and foreign changes, and can make batches wait.
type kernelMeter struct {
	kernel sync.Kernel

	mu             stdsync.Mutex
	reads, batches int
	foreign        uint32
	gate           chan struct{} // batches wait for it, unless it is nil
}

// Read counts and reads.
func (m *kernelMeter) Read() (nft.Tables, error) {
	m.count(&m.reads)
	return m.kernel.Read()
}

// ReadOnce counts and reads.
func (m *kernelMeter) ReadOnce() (nft.Tables, bool, error) {
	have, err := m.Read()
	return have, true, err
}

// Apply applies, and counts batches that were accepted.
func (m *kernelMeter) Apply(b nft.Batch) (nft.Applied, error) {
	m.mu.Lock()
	gate := m.gate
	m.mu.Unlock()
	if gate != nil {
		<-gate
	}
	a, err := m.kernel.Apply(b)
	if err == nil {
		m.count(&m.batches)
	}
	return a, err
}

// ForeignChanges returns the number of foreign changes.
func (m *kernelMeter) ForeignChanges() (uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.foreign, nil
}

// disturb adds a foreign change.
func (m *kernelMeter) disturb() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.foreign++
}

func (m *kernelMeter) count(n *int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*n++
}

// take returns a count and resets it.
func (m *kernelMeter) take(n *int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counted := *n
	*n = 0
	return counted
}

// hold makes batches wait, and reports false if they already do.
func (m *kernelMeter) hold() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gate != nil {
		return false
	}
	m.gate = make(chan struct{})
	return true
}

// release lets batches through, and reports false if none were held.
func (m *kernelMeter) release() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gate == nil {
		return false
	}
	close(m.gate)
	m.gate = nil
	return true
}
