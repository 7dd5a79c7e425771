package invalid

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	stdsync "sync"
	"testing"
	"time"

	"kube-vmap/integration/lab"
)

// tap is a raw socket at one of a host's addresses: it sees all TCP segments that
// come to it, and sends others than the host's own TCP would.
type tap struct {
	t    *testing.T
	addr netip.Addr
	conn *net.IPConn
	mu   stdsync.Mutex
	seen []segment
}

func newTap(t *testing.T, h *lab.Host, a netip.Addr) *tap {
	t.Helper()
	network := "ip6:tcp"
	if a.Is4() {
		network = "ip4:tcp"
	}
	tap := &tap{t: t, addr: a}
	err := h.Do(func() (err error) {
		tap.conn, err = net.ListenIP(network, &net.IPAddr{IP: a.AsSlice()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var group stdsync.WaitGroup
	group.Go(tap.listen)
	t.Cleanup(func() { tap.conn.Close(); group.Wait() })
	return tap
}

// listen notes what comes, until the socket is closed.
func (t *tap) listen() {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := t.conn.ReadFromIP(buf)
		if err != nil {
			return
		}
		sender, _ := netip.AddrFromSlice(from.IP)
		if s, ok := decode(sender.Unmap(), t.addr, buf[:n]); ok {
			s.payload = bytes.Clone(s.payload)
			t.mu.Lock()
			t.seen = append(t.seen, s)
			t.mu.Unlock()
		}
	}
}

// await waits for a segment that suits, the latest if there are several.
func (t *tap) await(suits func(segment) bool) segment {
	t.t.Helper()
	ticker := time.NewTicker(time.Millisecond / 5)
	defer ticker.Stop()
	for deadline := time.Now().Add(answer); time.Now().Before(deadline); <-ticker.C {
		t.mu.Lock()
		for _, s := range slices.Backward(t.seen) {
			if suits(s) {
				t.mu.Unlock()
				return s
			}
		}
		t.mu.Unlock()
	}
	t.t.Fatal("what was sent did not come by the raw socket")
	return segment{}
}

// send sends a segment.
func (t *tap) send(s segment) {
	t.t.Helper()
	if _, err := t.conn.WriteToIP(s.encode(), &net.IPAddr{IP: s.to.Addr().AsSlice()}); err != nil {
		t.t.Fatal(err)
	}
}
