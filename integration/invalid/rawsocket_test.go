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

// A rawSocket is a raw socket at one of a host's addresses: it receives all TCP segments to that
// address, and can send segments that the host's TCP would not.
type rawSocket struct {
	t    *testing.T
	addr netip.Addr
	conn *net.IPConn
	mu   stdsync.Mutex
	seen []segment
}

func newRawSocket(t *testing.T, h *lab.Host, a netip.Addr) *rawSocket {
	t.Helper()
	network := "ip6:tcp"
	if a.Is4() {
		network = "ip4:tcp"
	}
	rawSocket := &rawSocket{t: t, addr: a}
	err := h.Do(func() (err error) {
		rawSocket.conn, err = net.ListenIP(network, &net.IPAddr{IP: a.AsSlice()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var group stdsync.WaitGroup
	group.Go(rawSocket.listen)
	t.Cleanup(func() { rawSocket.conn.Close(); group.Wait() })
	return rawSocket
}

// listen records received segments until the socket is closed.
func (t *rawSocket) listen() {
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

// await returns the latest segment for which match returns true.
func (t *rawSocket) await(match func(segment) bool) segment {
	t.t.Helper()
	ticker := time.NewTicker(time.Millisecond / 5)
	defer ticker.Stop()
	for deadline := time.Now().Add(answer); time.Now().Before(deadline); <-ticker.C {
		t.mu.Lock()
		for _, s := range slices.Backward(t.seen) {
			if match(s) {
				t.mu.Unlock()
				return s
			}
		}
		t.mu.Unlock()
	}
	t.t.Fatal("the raw socket did not receive the segment")
	return segment{}
}

// send sends a segment.
func (t *rawSocket) send(s segment) {
	t.t.Helper()
	if _, err := t.conn.WriteToIP(s.encode(), &net.IPAddr{IP: s.to.Addr().AsSlice()}); err != nil {
		t.t.Fatal(err)
	}
}
