package passivehealth

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-vmap/model"
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

func TestProgramNeverSeesProbes(t *testing.T) {
	listentest.ExpectUnseen(t, func(to netip.AddrPort) error {
		return Prober{Mark: 1 << 13}.Probe(t.Context(), to, time.Minute)
	})
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

// TestConcurrentUse reads reports and totals while endpoints become unresponsive and Services change.
func TestConcurrentUse(t *testing.T) {
	for _, f := range model.Families {
		run(t, f, model.TCP, func(w *world) {
			s := w.serve("default", "web", w.protocol, 3)
			w.use("l", s, 100*time.Millisecond)
			w.pass(10 * time.Second)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 100 {
					<-time.After(100 * time.Millisecond)
					if _, err := w.tracker.Report(w.t.Context()); err != nil {
						t.Error(err)
					}
					w.tracker.Totals()
					w.tracker.InUse()
					w.tracker.Late()
				}
			}()
			w.pods[s.endpoints[1].addr.Addr()].dead = true
			w.until(10*time.Second, func() bool { return slices.Contains(w.received[s.key], s.endpoints[1].addr) })
			if n := len(w.received[s.key]); n != 1 {
				t.Errorf("%d endpoints are unresponsive", n)
			}
			s.endpoints = s.endpoints[:2]
			w.commit(s)
			w.pass(10 * time.Second)
			w.mu.Unlock()
			<-done
			w.mu.Lock()
		})
	}
}
