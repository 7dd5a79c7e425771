package listentest

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ExpectUnseen has a program that accepts connections after many half-open ones; the last one comes
// from a client. None leaves a connection in TIME_WAIT, on either side. Where this process had no
// processor for as long as the kernel delays an acknowledgement (TCP_DELACK_MAX, 200 ms), the program
// may see that connection.
func ExpectUnseen(t *testing.T, connect func(to netip.AddrPort) error) {
	t.Helper()
	for _, a := range Loopback {
		l, err := Listen(t, netip.AddrPortFrom(a, 0))
		if err != nil {
			t.Fatal(err)
		}
		to, slow := l.Addr().(*net.TCPAddr).AddrPort(), 0
		for range 100 {
			start := time.Now()
			if err := connect(to); err != nil {
				t.Fatal(err)
			}
			if time.Since(start) > 100*time.Millisecond {
				slow++
			}
		}
		if n := sockets(t, to.Port()); n > 1+2*slow {
			t.Errorf("%d sockets of %s, want the one that listens", n, to)
		}
		client := Dial(t, to)
		for seen := 0; ; seen++ {
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close() //nolint:errcheck // a test
			if server.RemoteAddr().String() == client.LocalAddr().String() {
				break
			}
			if seen >= slow {
				t.Fatalf("%s: the program has seen %d connections, of which %d were slow", to, seen+1, slow)
			}
		}
	}
}

// sockets returns how many TCP sockets have the port as their own or as their peer's.
func sockets(t *testing.T, port uint16) (n int) {
	t.Helper()
	hex := strings.ToUpper(strconv.FormatUint(uint64(port), 16))
	hex = ":" + strings.Repeat("0", 4-len(hex)) + hex + " "
	for _, file := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, hex) {
				n++
			}
		}
	}
	return n
}
