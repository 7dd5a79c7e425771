package programs

import (
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// addresses are specific and unspecified ones of both families.
var addresses = []string{"127.0.0.1:0", "[::1]:0", ":0"}

func listen(t *testing.T, address string) (*net.TCPListener, uint16) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener), l.Addr().(*net.TCPAddr).AddrPort().Port()
}

// check fails unless these ports of all are foreign.
func check(t *testing.T, all []uint16, want ...uint16) {
	t.Helper()
	got, err := ForeignPorts(all...)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("of %v, %v are foreign, %v; want %v", all, got, err, want)
	}
}

func TestOwnPortsAreNotForeign(t *testing.T) {
	for _, address := range addresses {
		l, port := listen(t, address)
		check(t, []uint16{port})
		// A connection is not a listener.
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		must(t, err)
		check(t, []uint16{port, c.LocalAddr().(*net.TCPAddr).AddrPort().Port()})
		c.Close()
	}
}

// TestPortsOfAnotherProcessAreForeign passes a listener to another process. When that has ended,
// some other program may have the port.
func TestPortsOfAnotherProcessAreForeign(t *testing.T) {
	for _, address := range addresses {
		l, port := listen(t, address)
		_, own := listen(t, address)
		end := handOver(t, l)
		check(t, []uint16{own, port}, port)
		end()
	}
}

// handOver passes a listener to a new process.
func handOver(t *testing.T, l *net.TCPListener) (end func()) {
	t.Helper()
	file, err := l.File()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "cat")
	cmd.ExtraFiles = []*os.File{file}
	stdin, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	for _, c := range []io.Closer{file, l} {
		must(t, c.Close())
	}
	return func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestOwnClosingSocketIsNotForeign looks while the process ends, which closes its listener.
func TestOwnClosingSocketIsNotForeign(t *testing.T) {
	for range 500 {
		l, port := listen(t, addresses[0])
		closed := make(chan error)
		go func() { closed <- l.Close() }()
		check(t, []uint16{port})
		must(t, <-closed)
	}
}
