package passivehealth

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"kube-vmap/sync/follow/listen/listentest"
)

// TestProbe probes a port that listens, one that does not, and one without the time for a
// reply, since a test has no address that drops packets.
func TestProbe(t *testing.T) {
	for _, a := range listentest.Loopback {
		l, err := listentest.Listen(t, netip.AddrPortFrom(a, 0))
		if err != nil {
			t.Fatal(err)
		}
		to, probe := l.Addr().(*net.TCPAddr).AddrPort(), Prober{Mark: 1 << 13}.Probe
		if err := probe(t.Context(), to, time.Minute); outcomeOf(err) != outcomeReply {
			t.Errorf("%s: %v", to, err)
		}
		l.Close()
		if err := probe(t.Context(), to, time.Minute); outcomeOf(err) != outcomeReply {
			t.Errorf("%s, closed: %v", to, err)
		}
		if err := probe(t.Context(), to, 0); outcomeOf(err) != outcomeTimeout {
			t.Errorf("%s, without time: %v", to, err)
		}
	}
}

// TestProgramNeverSeesProbes has a program that accepts connections after many probes; the last one
// comes from a client. No probe leaves a connection in TIME_WAIT, on either side. Where this
// process had no processor for as long as the kernel delays an acknowledgement (TCP_DELACK_MAX, 200
// ms), the program may see that probe.
func TestProgramNeverSeesProbes(t *testing.T) {
	for _, a := range listentest.Loopback {
		l, err := listentest.Listen(t, netip.AddrPortFrom(a, 0))
		if err != nil {
			t.Fatal(err)
		}
		to, slow := l.Addr().(*net.TCPAddr).AddrPort(), 0
		for range 100 {
			start := time.Now()
			if err := (Prober{Mark: 1 << 13}).Probe(t.Context(), to, time.Minute); err != nil {
				t.Fatal(err)
			}
			if time.Since(start) > 100*time.Millisecond {
				slow++
			}
		}
		if n := sockets(t, to.Port()); n > 1+2*slow {
			t.Errorf("%d sockets of %s, want the one that listens", n, to)
		}
		client, err := net.Dial("tcp", to.String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		for seen := 0; ; seen++ {
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			if server.RemoteAddr().String() == client.LocalAddr().String() {
				break
			}
			if seen >= slow {
				t.Fatalf("%s: the program has seen %d probes, of which %d were slow", to, seen+1, slow)
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

// BenchmarkProbe measures what a probe costs both sides together, next to a connection that a
// program accepts and closes.
func BenchmarkProbe(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	to := l.Addr().(*net.TCPAddr).AddrPort()
	b.Run("probe", func(b *testing.B) {
		for b.Loop() {
			if err := (Prober{}).Probe(b.Context(), to, time.Minute); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("connection", func(b *testing.B) {
		for b.Loop() {
			client, err := net.Dial("tcp", to.String())
			if err != nil {
				b.Fatal(err)
			}
			server, err := l.Accept()
			if err != nil {
				b.Fatal(err)
			}
			client.Close()
			server.Close()
		}
	})
}
