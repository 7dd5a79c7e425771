package proxy

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/masquerade"
	"kube-vmap/model"
)

// everyone returns one client of each kind: a pod, the node, and the host outside.
func everyone(l *lab.Lab) []*lab.Host { return []*lab.Host{l.Pods[2].Host, l.Node.Host, l.Outside} }

// TestPingOfServiceAddress pings Services with and without endpoints, and an address of
// no Service.
func TestPingOfServiceAddress(t *testing.T) {
	l, f, w := newScene(t)
	writeCluster(f, l)
	f.Put("services", daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1"}, daemon.Service{Name: "none", Number: 2})
	startAndSettle(t, w, l, f, daemon.PodRanges)
	for _, family := range model.Families {
		for _, from := range everyone(l) {
			for _, address := range []int{1, 2} {
				if err := pingUnreachable(from, clusterIP(family, address), answer); err != nil {
					t.Errorf("ping of %s from %s: %v", clusterIP(family, address), from, err)
				}
			}
			if err := pingUnreachable(from, clusterIP(family, 5), silence); !errors.Is(err, errNoAnswer) {
				t.Errorf("ping of %s from %s: %v, want silence", clusterIP(family, 5), from, err)
			}
		}
	}
}

// TestUnassignedAddressesDropNewConnections has a server at such an
// address that could answer, and that has connections from before.
func TestUnassignedAddressesDropNewConnections(t *testing.T) {
	l := newLab(t)
	f := daemon.EmptyFolder(t, l)
	writeCluster(f, l)
	// Without a rule that asks for it, the kernel does not track connections.
	runNFT(t, l.Node.Host, "table inet other { chain forward { type filter hook forward priority 0; ct state new accept; }; }")
	var talks []net.Conn
	for _, family := range model.Families {
		if err := l.Outside.AddAddress(clusterIP(family, 5)); err != nil {
			t.Fatal(err)
		}
		if err := serveAddr(t, l.Outside, at(family, 5)); err != nil {
			t.Fatal(err)
		}
		for _, from := range []*lab.Host{l.Pods[0].Host, l.Node.Host} {
			c := talk(t, from, at(family, 5))
			if err := exchange(c, answer); err != nil {
				t.Fatalf("%s, without the proxy: %v", from, err)
			}
			talks = append(talks, c)
		}
	}
	startAndSettle(t, watch(t, l.Node.Host), l, f, daemon.PodRanges)
	for _, c := range talks {
		if err := exchange(c, answer); err != nil {
			t.Errorf("talk to %s goes on: %v", c.RemoteAddr(), err)
		}
	}
	for _, family := range model.Families {
		for _, from := range []*lab.Host{l.Pods[0].Host, l.Node.Host} {
			err := exchange(talk(t, from, at(family, 5)), silence)
			if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, syscall.EPERM) {
				t.Errorf("new talk from %s to %s: %v, want silence", from, clusterIP(family, 5), err)
			}
		}
	}
}

// talk makes a UDP socket that knows whom to talk to.
func talk(t *testing.T, from *lab.Host, to netip.AddrPort) net.Conn {
	t.Helper()
	c, err := from.DialContext(t.Context(), "udp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// exchange sends a datagram and waits for one.
func exchange(c net.Conn, timeout time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("?")); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 64))
	return err
}

// TestTCPClientsAreRefusedImmediately asks with nothing but connect. The lab's
// own clients also look where the kernel keeps an ICMP error that comes too soon
// for connect, which would see it only when it sends its SYN again, after a second.
func TestTCPClientsAreRefusedImmediately(t *testing.T) {
	l := newLab(t)
	f := daemon.EmptyFolder(t, l)
	s := daemon.Service{Name: "none", Number: 1}
	f.Put("services", s)
	startAndSettle(t, watch(t, l.Node.Host), l, f, daemon.PodRanges)
	for _, family := range model.Families {
		for _, from := range everyone(l) {
			before, err := masquerade.Count(from)
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				_, err := from.DialContext(t.Context(), "tcp", s.ClusterAddrPort(family).String())
				if !errors.Is(err, syscall.ECONNREFUSED) {
					t.Fatalf("%s from %s: %v", family, from, err)
				}
			}
			after, err := masquerade.Count(from)
			if err != nil {
				t.Fatal(err)
			}
			if n := after.Since(before, "TCPSynRetrans"); n > 0 {
				t.Errorf("%s from %s: %d SYNs were sent again", family, from, n)
			}
		}
	}
}

// TestUDPFromTheNodeIsRefusedBySend holds what is different for a process on the
// node: its own system call reports it, not only the socket.
func TestUDPFromTheNodeIsRefusedBySend(t *testing.T) {
	l := newLab(t)
	f := daemon.EmptyFolder(t, l)
	s := daemon.Service{Name: "none", Number: 1}
	f.Put("services", s)
	startAndSettle(t, watch(t, l.Node.Host), l, f, daemon.PodRanges)
	for _, family := range model.Families {
		c := talk(t, l.Node.Host, s.ClusterAddrPort(family))
		if _, err := c.Write([]byte("anybody?")); !errors.Is(err, syscall.EPERM) {
			t.Errorf("%s: send: %v, want %v", family, err, syscall.EPERM)
		}
		if err := c.SetDeadline(time.Now().Add(answer)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: receive: %v, want %v", family, err, syscall.ECONNREFUSED)
		}
	}
}
