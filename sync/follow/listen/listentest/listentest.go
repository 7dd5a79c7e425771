// Package listentest has helpers for tests of servers on real sockets.
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

// Timeout is how long a test waits for something that should happen within a second or
// two.
const Timeout = time.Minute

// Loopback has the loopback address of each family.
var Loopback = [len(model.Families)]netip.Addr{
	model.IPv4: netip.AddrFrom4([4]byte{127, 0, 0, 1}),
	model.IPv6: netip.IPv6Loopback(),
}

// Eventually waits until a condition holds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(Timeout); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

// FreePorts returns ports that are not in use in either family, outside the kernel's
// ephemeral range.
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

// FreePort returns one port as FreePorts does.
func FreePort(t testing.TB) uint16 {
	t.Helper()
	return FreePorts(t, 1)[0]
}

// isFree reports whether no socket listens, without connecting.
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

// IsOpen reports whether a socket listens.
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

// Dial connects as soon as a socket listens, until the test ends. Slow operations fail.
func Dial(t testing.TB, addr netip.AddrPort) *net.TCPConn {
	t.Helper()
	var c net.Conn
	Eventually(t, "a connection to "+addr.String(), func() bool {
		var err error
		c, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", addr.String())
		return err == nil
	})
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	if err := c.SetDeadline(time.Now().Add(Timeout)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// WaitClosed waits until no socket listens.
func WaitClosed(t testing.TB, addr netip.AddrPort) {
	t.Helper()
	Eventually(t, addr.String()+" is closed", func() bool { return isFree(t, addr) })
}

// Run runs a task until the test ends or the returned function is called. Then the task
// must end soon, without an error or remaining goroutines.
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
				t.Errorf("the task ended with %v", err)
			}
		case <-time.After(Timeout):
			t.Error("the task does not end")
			return
		}
		Eventually(t, "the task's goroutines end", func() bool { return runtime.NumGoroutine() <= before })
	})
	t.Cleanup(stop)
	return stop
}

// A Recorder is a [sync.Recorder] that keeps warnings for tests.
type Recorder struct {
	mu       stdsync.Mutex
	warnings []Warning
}

// A Warning has the arguments of a call of Warn.
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

// Warnings returns all warnings so far.
func (r *Recorder) Warnings() []Warning {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Warning(nil), r.warnings...)
}

// A LogBuffer is the output of a log, safe for concurrent use.
type LogBuffer struct {
	mu   stdsync.Mutex
	text bytes.Buffer
}

// Log returns a log that writes to the buffer.
func (j *LogBuffer) Log() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// Write implements [io.Writer].
func (j *LogBuffer) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// String returns what was written.
func (j *LogBuffer) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
