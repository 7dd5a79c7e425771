// Package listentest holds what tests of servers on real sockets have in common.
package listentest

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	stdsync "sync"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// Timeout is how long a test waits for what should happen at once, or within a
// second or two of real time.
const Timeout = 20 * time.Second

// Loopback are this machine's own addresses.
var Loopback = [len(model.Families)]netip.Addr{
	model.IPv4: netip.AddrFrom4([4]byte{127, 0, 0, 1}),
	model.IPv6: netip.IPv6Loopback(),
}

// Eventually waits until something holds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(Timeout); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// FreePorts are ports that nobody listens on in either family. They are none that
// the kernel gives to clients.
func FreePorts(t testing.TB, n int) []uint16 {
	t.Helper()
	const first, after = 10000, 30000
	var ports []uint16
	for next := first + rand.IntN(after-first-1000); len(ports) < n; next++ {
		if next == after {
			t.Fatalf("%d ports are not free in both families", n)
		}
		port := uint16(next)
		if isFree(t, netip.AddrPortFrom(netip.IPv4Unspecified(), port)) && isFree(t, netip.AddrPortFrom(netip.IPv6Unspecified(), port)) {
			ports = append(ports, port)
		}
	}
	return ports
}

// FreePort is one of them.
func FreePort(t testing.TB) uint16 {
	t.Helper()
	return FreePorts(t, 1)[0]
}

// isFree reports whether nobody listens, without connecting.
func isFree(t testing.TB, addr netip.AddrPort) bool {
	t.Helper()
	l, err := Listen(t, addr)
	if err != nil {
		return false
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return true
}

// Listen listens on an address in its family only.
func Listen(t testing.TB, addr netip.AddrPort) (*net.TCPListener, error) {
	t.Helper()
	network := "tcp4"
	if addr.Addr().Is6() {
		network = "tcp6"
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), network, addr.String())
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// IsOpen reports whether somebody listens.
func IsOpen(t testing.TB, addr netip.AddrPort) bool {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(context.WithoutCancel(t.Context()), "tcp", addr.String())
	if err != nil {
		return false
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return true
}

// WaitClosed waits until nobody listens.
func WaitClosed(t testing.TB, addr netip.AddrPort) {
	t.Helper()
	Eventually(t, addr.String()+" is closed", func() bool { return isFree(t, addr) })
}

// Run runs a task until the test's end, or until the returned function is called.
// Then it must be done soon, without an error, and leave no goroutine behind.
func Run(t testing.TB, task func(context.Context) error) (stop func()) {
	t.Helper()
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- task(ctx) }()
	stop = stdsync.OnceFunc(func() {
		t.Helper()
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("it ended with %v", err)
			}
		case <-time.After(Timeout):
			t.Error("it does not end")
			return
		}
		Eventually(t, "its goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
	})
	t.Cleanup(stop)
	return stop
}

// Recorder is a [sync.Recorder] for a test to read.
type Recorder struct {
	mu       stdsync.Mutex
	warnings []Warning
}

// Warning is what it was told.
type Warning struct {
	Object       sync.Object
	Reason, Note string
}

// Warn implements [sync.Recorder].
func (r *Recorder) Warn(o sync.Object, reason, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings = append(r.warnings, Warning{o, reason, note})
}

// Warnings are all so far.
func (r *Recorder) Warnings() []Warning {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Warning(nil), r.warnings...)
}

// LogBuffer is where a log is written to.
type LogBuffer struct {
	mu   stdsync.Mutex
	text bytes.Buffer
}

// Log is a log that ends up in the journal.
func (j *LogBuffer) Log() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// Write writes.
func (j *LogBuffer) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// String is what was written.
func (j *LogBuffer) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
