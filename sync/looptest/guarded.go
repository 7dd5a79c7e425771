package looptest

import (
	"bytes"
	"strings"
	stdsync "sync"

	"kube-vmap/nft"
	"kube-vmap/sync"
)

// Loop and test take turns, and synctest knows when. The race detector does not
// where time passes in between; hence the locks here.

// guarded makes a kernel safe for several goroutines.
type guarded struct {
	mu     stdsync.Mutex
	kernel sync.Kernel
}

// Read is the kernel's.
func (g *guarded) Read() (nft.Tables, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.kernel.Read()
}

// Apply is the kernel's.
func (g *guarded) Apply(b nft.Batch) (nft.Applied, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.kernel.Apply(b)
}

// Foreign is the kernel's.
func (g *guarded) ForeignChanges() (uint32, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.kernel.ForeignChanges()
}

// meter counts what a loop does with a kernel, and what others do, and can make it
// wait.
type meter struct {
	kernel sync.Kernel

	mu             stdsync.Mutex
	reads, batches int
	foreign        uint32
	gate           chan struct{} // nil, or what batches wait for
}

// Read counts and reads.
func (m *meter) Read() (nft.Tables, error) {
	m.count(&m.reads)
	return m.kernel.Read()
}

// ReadOnce is Read, at one moment.
func (m *meter) ReadOnce() (nft.Tables, bool, error) {
	have, err := m.Read()
	return have, true, err
}

// Apply applies, and counts what was taken.
func (m *meter) Apply(b nft.Batch) (nft.Applied, error) {
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

// Foreign counts what others have done.
func (m *meter) ForeignChanges() (uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.foreign, nil
}

// disturb notes that others have done something.
func (m *meter) disturb() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.foreign++
}

func (m *meter) count(n *int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*n++
}

// take returns a count and begins it anew.
func (m *meter) take(n *int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counted := *n
	*n = 0
	return counted
}

// hold makes batches wait. It returns false if they do already.
func (m *meter) hold() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gate != nil {
		return false
	}
	m.gate = make(chan struct{})
	return true
}

// release lets batches through. It returns false if none were held.
func (m *meter) release() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gate == nil {
		return false
	}
	close(m.gate)
	m.gate = nil
	return true
}

// journal is a log that can be read while it is written.
type journal struct {
	mu   stdsync.Mutex
	text bytes.Buffer
}

// Write appends to the log.
func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// String is the log so far.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// end is the last n lines of the log.
func (j *journal) end(n int) string {
	lines := strings.SplitAfter(j.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
