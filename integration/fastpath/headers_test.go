package fastpath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// A header has the fields of an IP header that the node may change.
type header struct{ ttl, class int }

// headerOptions are the socket options about a header of a family.
var headerOptions = [len(model.Families)]struct{ level, setTTL, setClass, receiveTTL, receiveClass, ttl, class, receiveErrors int }{
	model.IPv4: {unix.IPPROTO_IP, unix.IP_TTL, unix.IP_TOS, unix.IP_RECVTTL, unix.IP_RECVTOS, unix.IP_TTL, unix.IP_TOS, unix.IP_RECVERR},
	model.IPv6: {
		unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_TCLASS, unix.IPV6_RECVHOPLIMIT, unix.IPV6_RECVTCLASS,
		unix.IPV6_HOPLIMIT, unix.IPV6_TCLASS, unix.IPV6_RECVERR,
	},
}

// setOptions sets integer options of a socket.
func setOptions(c syscall.Conn, level int, options map[int]int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for name, value := range options {
			failed = errors.Join(failed, unix.SetsockoptInt(int(fd), level, name, value))
		}
	})
	return errors.Join(err, failed)
}

// serveHeaders answers each datagram by the header with which it arrived.
func serveHeaders(t *testing.T, pod *lab.Host, f model.Family) {
	t.Helper()
	o := headerOptions[f]
	var c *net.UDPConn
	if err := pod.Do(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(pod.AddrPort(f, secondPort)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := setOptions(c, o.level, map[int]int{o.receiveTTL: 1, o.receiveClass: 1}); err != nil {
		t.Fatal(err)
	}
	go func() {
		data, control := make([]byte, 100), make([]byte, 100)
		for {
			_, n, _, from, err := c.ReadMsgUDPAddrPort(data, control)
			if err != nil {
				return
			}
			var h header
			messages, _ := unix.ParseSocketControlMessage(control[:n])
			for _, m := range messages {
				switch int(m.Header.Type) {
				case o.ttl:
					h.ttl = int(binary.NativeEndian.Uint32(m.Data))
				case o.class: // one byte of IPv4
					h.class = int(m.Data[0])
				}
			}
			_, _ = c.WriteToUDPAddrPort(fmt.Append(nil, h.ttl, h.class), from)
		}
	}()
}

// headerAtEndpoint sends a datagram and returns its header at the endpoint.
func headerAtEndpoint(c net.Conn) (h header, err error) {
	if err := c.SetDeadline(time.Now().Add(answer)); err != nil {
		return h, err
	}
	if _, err := c.Write([]byte("?")); err != nil {
		return h, err
	}
	text := make([]byte, 100)
	n, err := c.Read(text)
	if err != nil {
		return h, err
	}
	_, err = fmt.Sscan(string(text[:n]), &h.ttl, &h.class)
	return h, err
}

// TestHeaderIsThatOfTheSlowPath has a TTL (hop limit) that the node decreases, or that ends
// there, and a DSCP.
func TestHeaderIsThatOfTheSlowPath(t *testing.T) {
	m := newEchoMachine(t, func(pod *lab.Host, f model.Family) { serveHeaders(t, pod, f) })
	for _, f := range model.Families {
		o := headerOptions[f]
		sent := header{ttl: 77, class: 46 << 2}
		want := header{ttl: sent.ttl - 1, class: sent.class}
		c := m.dial("udp", f).(*net.UDPConn)
		if err := setOptions(c, o.level, map[int]int{o.setTTL: sent.ttl, o.setClass: sent.class, o.receiveErrors: 1}); err != nil {
			t.Fatal(err)
		}
		expect := func(path string) {
			t.Helper()
			if got, err := headerAtEndpoint(c); err != nil || got != want {
				t.Errorf("%s: %s path: %+v at the endpoint, want %+v, %v", f, path, got, want, err)
			}
		}
		expect("slow")
		for range entered {
			expect("either")
		}
		if seen := m.forwarded(f, func() { expect("fast") }); seen > 0 {
			t.Errorf("%s: the hook saw %d packets", f, seen)
		}
		if err := setOptions(c, o.level, map[int]int{o.setTTL: 1}); err != nil {
			t.Fatal(err)
		}
		if got, err := headerAtEndpoint(c); !errors.Is(err, unix.EHOSTUNREACH) {
			t.Errorf("%s: a TTL of 1: %+v, %v, want %v of the node", f, got, err, unix.EHOSTUNREACH)
		}
	}
}
