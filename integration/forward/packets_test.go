package forward

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestFragmentsNeedMemory sends datagrams that do not fit into one packet. Only the first
// fragment has a port, so the others are not forwarded, unless the node remembers where it
// has sent the first one. Under Cluster policy the node puts them together.
func TestFragmentsNeedMemory(t *testing.T) {
	for _, tc := range []struct {
		name     string
		scene    *scene
		answered bool
	}{
		{"Cluster policy", newScene(t, false), true},
		{"forwarding", newForwarding(t, options{}), false},
		{"forwarding, with memory", newForwarding(t, options{fragments: true}), true},
	} {
		for _, f := range model.Families {
			for range 4 {
				timeout := short
				if tc.answered {
					timeout = patience
				}
				if answered := tc.scene.sendDatagram(f, 4000, timeout); answered != tc.answered {
					t.Errorf("%s: a datagram of 4,000 bytes over %s: answered %t", tc.name, f, answered)
				}
			}
		}
	}
}

// sendDatagram sends a datagram from a new port, and reports whether it is answered.
func (s *scene) sendDatagram(f model.Family, size int, timeout time.Duration) (answered bool) {
	s.t.Helper()
	from := netip.AddrPortFrom(daemon.ClientAddr(f, 0), s.lab.Outside.FreshPort())
	s.must(s.lab.Outside.Do(func() error {
		c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(from), net.UDPAddrFromAddrPort(s.frontend(f)))
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		if _, err := c.Write(make([]byte, size)); err != nil {
			return err
		}
		_ = c.SetReadDeadline(time.Now().Add(timeout))
		_, err = c.Read(make([]byte, 100))
		answered = err == nil
		return nil
	}))
	return answered
}

// TestFullPacketsPass sends datagrams of the MTU, and an upload whose segments pass the first
// node many together, in buffers above the MTU.
func TestFullPacketsPass(t *testing.T) {
	const size = 8 << 20
	s := newForwarding(t, options{})
	s.watch()
	for _, f := range model.Families {
		header := 20 + 8
		if f == model.IPv6 {
			header = 40 + 8
		}
		if !s.sendDatagram(f, 1500-header, patience) {
			t.Errorf("%s: a datagram of the MTU is not answered", f)
		}
		count(t, s.lab.Node, "forwarded")
		got, err := s.upload(f, size)
		if err != nil || got != sum(size) {
			t.Errorf("%s: an upload of %d bytes: %s, %v", f, size, got, err)
		}
		if buffers := count(t, s.lab.Node, "forwarded"); buffers == 0 || buffers > size/1500 {
			t.Errorf("%s: %d bytes in %d buffers", f, size, buffers)
		} else {
			t.Logf("%s: %d bytes in %d buffers", f, size, buffers)
		}
	}
}

// sum returns the checksum of zeros.
func sum(size int) string {
	digest := sha256.Sum256(make([]byte, size))
	return hex.EncodeToString(digest[:])
}

// upload sends zeros to the second port of the Service, whose endpoints answer with their
// checksum.
func (s *scene) upload(f model.Family, size int) (digest string, err error) {
	for _, p := range s.pods() {
		var l net.Listener
		s.must(p.Do(func() (err error) {
			l, err = net.Listen("tcp", p.AddrPort(f, daemon.TargetPort+1).String())
			return err
		}))
		defer func() { _ = l.Close() }()
		go serveUpload(l)
	}
	err = s.lab.Outside.Do(func() error {
		to := netip.AddrPortFrom(s.frontend(f).Addr(), s.frontend(f).Port()+1)
		c, err := net.DialTimeout("tcp", to.String(), patience)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(2 * patience))
		_, err = c.Write(make([]byte, size))
		answer, readErr := []byte(nil), c.(*net.TCPConn).CloseWrite()
		if readErr == nil {
			answer, readErr = io.ReadAll(c)
		}
		digest = string(answer)
		return errors.Join(err, readErr)
	})
	return digest, err
}

func serveUpload(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		hash := sha256.New()
		_, _ = io.Copy(hash, c)
		_, _ = fmt.Fprintf(c, "%x", hash.Sum(nil))
		_ = c.Close()
	}
}

// TestICMPErrorsNeedTheInnerPacket reports to the Service that packets to a client were too
// big, through a node that does not serve the client. The endpoint learns it if the node
// reads the client's port from the packet that the error contains.
func TestICMPErrorsNeedTheInnerPacket(t *testing.T) {
	for _, parse := range []bool{false, true} {
		s := newForwarding(t, options{errors: parse})
		for n, f := range model.Families {
			w := daemon.Transport{Protocol: model.UDP, Family: f}
			port := s.lab.Outside.FreshPort()
			client := netip.AddrPortFrom(daemon.ClientAddr(f, n), port)
			a, err := s.lab.Outside.AskFrom(w.Protocol, client, s.frontend(f), patience)
			if err != nil || a.Outcome != lab.Answered {
				t.Fatal(a, err)
			}
			s.sendTooBig(client, s.frontend(f), 1400)
			pod := s.pod(a.By)
			learned := func() bool {
				return strings.Contains(run(t, pod.Host, "ip route get "+client.Addr().String()), "mtu 1400")
			}
			if parse {
				eventually.Holds(t, "the endpoint knows the MTU", learned)
			} else if learned() {
				t.Errorf("%s: the endpoint knows the MTU", f)
			}
		}
	}
}

func (s *scene) pod(name string) *lab.Pod {
	s.t.Helper()
	for _, p := range s.pods() {
		if p.Name == name {
			return p
		}
	}
	s.t.Fatalf("no pod %s", name)
	return nil
}
