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
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestPingOfServiceAddress pings Services whose clients reach an endpoint or none, or of which only
// some may connect, and an address of no Service: each by its ClusterIP, load balancer address and
// external IP.
func TestPingOfServiceAddress(t *testing.T) {
	l, f := newScene(t)
	service := func(n int, name, endpoints string) daemon.Service {
		return daemon.Service{Name: name, Number: n, EndpointSpec: endpoints, Kinds: daemon.Kinds}
	}
	web, none, far, few := service(1, "web", "pod-1"), service(2, "none", ""), service(3, "far", "remote-1"), service(4, "few", "pod-1")
	far.LocalOutside = true
	few.Sources = []string{lab.PodRanges[model.IPv4].String(), lab.PodRanges[model.IPv6].String()}
	f.Put("services", web, none, far, few)
	d := start(t, l, f)
	const answered, refused, lost = unix.Errno(0), unix.ECONNREFUSED, unix.EAGAIN
	check := func(from *lab.Host, n int, k model.Kind, want unix.Errno) {
		t.Helper()
		for _, family := range model.Families {
			timeout := answer
			if want == lost {
				timeout = silence
			}
			err := ping(from, daemon.Service{Number: n}.Addr(family, k), timeout)
			if want == answered && err != nil || want != answered && !errors.Is(err, want) {
				t.Errorf("ping of %s of Service %d from %s, %s: %v, want %v", k, n, from, family, err, want)
			}
		}
	}
	for _, from := range everyone(l) {
		for i, want := range []unix.Errno{answered, refused, answered, answered, lost} {
			check(from, i+1, model.KindClusterIP, want)
		}
		for i, want := range []unix.Errno{answered, lost, lost, answered} {
			balancer := want
			if i == 3 { // source ranges are of its load balancer's addresses
				balancer = lost
			}
			if from != l.Outside { // the network outside has no host with these addresses
				want, balancer = lost, lost
			}
			check(from, i+1, model.KindExternalIP, want)
			check(from, i+1, model.KindLoadBalancerIP, balancer)
		}
	}
	none.EndpointSpec, web.EndpointSpec = "pod-1", ""
	f.Put("services", web, none, far, few)
	eventually.Succeeds(t, "an endpoint is programmed", func() error {
		return ping(l.Node.Host, none.Addr(model.IPv6, model.KindClusterIP), answer)
	})
	for _, from := range everyone(l) {
		check(from, 1, model.KindClusterIP, refused)
		check(from, 2, model.KindClusterIP, answered)
	}
	check(l.Outside, 1, model.KindExternalIP, lost)
	check(l.Outside, 2, model.KindExternalIP, answered)
	d.Stop()
	start(t, l, f, "--answer-pings=false")
	check(l.Pods[2].Host, 2, model.KindClusterIP, refused)
	check(l.Outside, 2, model.KindExternalIP, lost)
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
