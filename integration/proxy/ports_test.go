package proxy

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestPingOfServiceAddress pings Services with and without endpoints, and an address of
// no Service.
func TestPingOfServiceAddress(t *testing.T) {
	l, f := newScene(t)
	f.Put("services", daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1"}, daemon.Service{Name: "none", Number: 2})
	start(t, l, f)
	for _, family := range model.Families {
		for _, from := range everyone(l) {
			for _, address := range []int{1, 2} {
				if err := ping(from, clusterIP(family, address), answer); !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("ping of %s from %s: %v", clusterIP(family, address), from, err)
				}
			}
			if err := ping(from, clusterIP(family, 5), silence); !errors.Is(err, unix.EAGAIN) {
				t.Errorf("ping of %s from %s: %v, want silence", clusterIP(family, 5), from, err)
			}
		}
	}
}

// ping sends an ICMP echo and waits for an answer. The error is ECONNREFUSED if it is port
// unreachable, and EAGAIN if there is none.
func ping(from *lab.Host, to netip.Addr, timeout time.Duration) error {
	return from.Do(func() error {
		if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 0"), 0); err != nil {
			return err
		}
		domain, protocol, echo := unix.AF_INET6, unix.IPPROTO_ICMPV6, byte(128)
		at := unix.Sockaddr(&unix.SockaddrInet6{Addr: to.As16()})
		if to.Is4() {
			domain, protocol, echo = unix.AF_INET, unix.IPPROTO_ICMP, 8
			at = &unix.SockaddrInet4{Addr: to.As4()}
		}
		fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		limit := unix.NsecToTimeval(int64(timeout))
		if err := errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit), unix.Connect(fd, at)); err != nil {
			return err
		}
		// On the node that filters, sending returns the error.
		if _, err := unix.Write(fd, []byte{echo, 0, 0, 0, 0, 0, 0, 1}); err != nil && !errors.Is(err, unix.EPERM) {
			return err
		}
		for err = unix.EINTR; errors.Is(err, unix.EINTR); { // a signal of Go's scheduler
			_, err = unix.Read(fd, make([]byte, 64))
		}
		return err
	})
}

// TestTCPClientsAreRefusedImmediately asks with nothing but connect. The lab's
// own clients also look where the kernel keeps an ICMP error that comes too soon
// for connect, which would see it only when it sends its SYN again, after a second.
func TestTCPClientsAreRefusedImmediately(t *testing.T) {
	l, f := newScene(t)
	s := daemon.Service{Name: "none", Number: 1}
	f.Put("services", s)
	start(t, l, f)
	for _, family := range model.Families {
		for _, from := range everyone(l) {
			before := count(t, from)
			for range 10 {
				_, err := from.DialContext(t.Context(), "tcp", s.ClusterAddrPort(family).String())
				if !errors.Is(err, syscall.ECONNREFUSED) {
					t.Fatalf("%s from %s: %v", family, from, err)
				}
			}
			if n := count(t, from).since(before, "TCPSynRetrans"); n > 0 {
				t.Errorf("%s from %s: %d SYNs were sent again", family, from, n)
			}
		}
	}
}
