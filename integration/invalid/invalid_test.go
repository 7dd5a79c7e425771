package invalid

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	settings "kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// earlierBytes is how much both ends have sent before, so that there is old data.
	earlierBytes = 200_000
	// beyondWindow is an offset beyond any window.
	beyondWindow = 1 << 28
)

// invalidSegments are segments that a server may send in an established connection, made from
// the next valid one.
var invalidSegments = []struct {
	name string
	make func(due segment) segment
}{
	{"data sent just before", func(s segment) segment { s.seq -= 10; return s }},
	{"old data", func(s segment) segment { s.seq -= earlierBytes / 2; return s }},
	{"data from before the connection", func(s segment) segment { s.seq -= beyondWindow; return s }},
	{"data beyond the window", func(s segment) segment { s.seq += beyondWindow; return s }},
	{"an acknowledgement of old data", func(s segment) segment { s.ack -= earlierBytes / 2; s.payload = nil; return s }},
	{"an acknowledgement from before the connection", func(s segment) segment { s.ack -= beyondWindow; s.payload = nil; return s }},
	{"an acknowledgement of data never sent", func(s segment) segment { s.ack += beyondWindow; s.payload = nil; return s }},
	{"a reset from beyond the window", func(s segment) segment { s.seq += beyondWindow; s.flags = rst; s.payload = nil; return s }},
	{"contradictory flags", func(s segment) segment { s.flags = syn | fin; s.payload = nil; return s }},
}

// service returns a Service with one endpoint, pod-2, and every kind of address that differs in
// what is translated and where replies go.
func service(l *lab.Lab) daemon.Service {
	return daemon.Service{
		Name: "web", Number: 1, Endpoints: []*lab.Host{l.Pods[1].Host},
		Kinds: []model.Kind{model.KindNodePort, model.KindLoadBalancerIP}, LocalOutside: true,
	}
}

// A client is a host and the kind of address that it uses.
type client struct {
	name string
	host *lab.Host
	kind model.Kind
}

func clients(l *lab.Lab) []client {
	return []client{
		{"a pod", l.Pods[0].Host, model.KindClusterIP},
		{"the pod itself, masqueraded", l.Pods[1].Host, model.KindClusterIP},
		{"the node, masqueraded", l.Node.Host, model.KindClusterIP},
		{"an outside client, masqueraded", l.Outside, model.KindClusterIP},
		{"an outside client, by a load balancer", l.Outside, model.KindLoadBalancerIP},
		{"an outside client, by a node port", l.Outside, model.KindNodePort},
	}
}

// TestConnectionsSurviveInvalidSegments tests the default, which since Linux 6.1 is enough for
// everything except data beyond the window, and --drop-invalid, which is the default on older
// kernels. That the former is not enough shows that the segments do arrive.
func TestConnectionsSurviveInvalidSegments(t *testing.T) {
	for name, flags := range map[string][]string{"by default": nil, "with --drop-invalid": {"--drop-invalid"}} {
		t.Run(name, func(t *testing.T) {
			l := labtest.New(t, lab.Options{Pods: 2})
			daemon.RouteServices(t, l, l.Node)
			f := daemon.NewFolder(t, l)
			f.Put("web", service(l))
			daemon.Start(t, l.Node, f, flags...)
			requireStrictTracking(t, l.Node.Host)
			for _, family := range model.Families {
				port := listen(t, l.Pods[1].Host, l.Pods[1].AddrPort(family, daemon.TargetPort))
				for _, c := range clients(l) {
					to := service(l).AddrPort(l.Node, family, c.kind, 0)
					for _, o := range invalidSegments {
						t.Run(fmt.Sprintf("%s/%s/%s", family, c.name, o.name), func(t *testing.T) {
							err := survives(t, newConnection(t, c.host, to, port), l.Pods[1].Host, o.make)
							ends := o.name == "data beyond the window" && flags == nil && !settings.CallsOldDataInvalid()
							if ends != (err != nil) {
								t.Errorf("the connection ended: %v; want that it does: %t", err, ends)
							}
						})
					}
				}
			}
		})
	}
}

// listen opens the server's port.
func listen(t *testing.T, h *lab.Host, at netip.AddrPort) (l *net.TCPListener) {
	t.Helper()
	err := h.Do(func() (err error) { l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at)); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// survives sends an invalid segment in a connection. It returns nil if the connection works
// afterwards, or else how it ended.
func survives(t *testing.T, k connection, server *lab.Host, invalid func(segment) segment) error {
	t.Helper()
	if err := k.pass(bytes.Repeat([]byte("x"), earlierBytes)); err != nil {
		t.Fatalf("before: %v", err)
	}
	due, err := k.due()
	if err != nil {
		t.Fatal(err)
	}
	due.flags, due.payload = ack|psh, []byte("odd")
	if err := invalid(due).send(server); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := k.pass([]byte("question")); err != nil {
			return err
		}
		<-time.After(time.Millisecond) // for a reset that may come
	}
	return nil
}

// requireStrictTracking fails if the node's kernel does not have the default setting.
func requireStrictTracking(t *testing.T, h *lab.Host) {
	t.Helper()
	var text []byte
	err := h.Do(func() (err error) {
		text, err = os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal")
		return err
	})
	if err != nil || strings.TrimSpace(string(text)) != "0" {
		t.Fatalf("nf_conntrack_tcp_be_liberal of %s is %q, %v", h, text, err)
	}
}

// A segment is the part of a TCP segment (RFC 9293, 3.1) that matters here, with its addresses.
type segment struct {
	from, to netip.AddrPort
	seq, ack uint32
	flags    flags
	payload  []byte
}

// flags are the control bits of a segment.
type flags uint8

const (
	fin flags = 1 << iota
	syn
	rst
	psh
	ack
)

// headerLen is the length of a header without options.
const headerLen = 20

// encode returns the segment as in an IP packet, with its checksum.
func (s segment) encode() []byte {
	b := make([]byte, headerLen, headerLen+len(s.payload))
	binary.BigEndian.PutUint16(b, s.from.Port())
	binary.BigEndian.PutUint16(b[2:], s.to.Port())
	binary.BigEndian.PutUint32(b[4:], s.seq)
	binary.BigEndian.PutUint32(b[8:], s.ack)
	b[12] = headerLen / 4 << 4
	b[13] = byte(s.flags)
	binary.BigEndian.PutUint16(b[14:], 1<<15-1) // the window
	b = append(b, s.payload...)
	binary.BigEndian.PutUint16(b[16:], s.checksum(b))
	return b
}

// checksum returns the checksum of RFC 9293, 3.1, over the pseudo header and b.
func (s segment) checksum(b []byte) uint16 {
	all := append(s.from.Addr().AsSlice(), s.to.Addr().AsSlice()...)
	all = binary.BigEndian.AppendUint32(all, unix.IPPROTO_TCP)
	all = binary.BigEndian.AppendUint32(all, uint32(len(b)))
	all = append(all, b...)
	if len(all)%2 == 1 {
		all = append(all, 0)
	}
	var sum uint32
	for ; len(all) > 0; all = all[2:] {
		sum += uint32(binary.BigEndian.Uint16(all))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// send sends the segment from a host, whose TCP does not know of it.
func (s segment) send(h *lab.Host) error {
	network := "ip6:tcp"
	if s.from.Addr().Is4() {
		network = "ip4:tcp"
	}
	return h.Do(func() error {
		c, err := net.ListenIP(network, &net.IPAddr{IP: s.from.Addr().AsSlice()})
		if err != nil {
			return err
		}
		_, err = c.WriteToIP(s.encode(), &net.IPAddr{IP: s.to.Addr().AsSlice()})
		return errors.Join(err, c.Close())
	})
}

// answer is the timeout for what must happen.
const answer = 10 * time.Second

// A connection is the two ends of an established connection. The server returns what it receives.
type connection struct {
	client net.Conn
	server *net.TCPConn
}

// newConnection connects a client to a Service and accepts the connection at the server.
func newConnection(t *testing.T, from *lab.Host, to netip.AddrPort, at *net.TCPListener) connection {
	t.Helper()
	client, err := from.DialContext(t.Context(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err := at.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() { _, _ = io.Copy(server, server) }()
	return connection{client, server}
}

// pass sends a text in both directions.
func (k connection) pass(text []byte) error {
	if err := k.client.SetDeadline(time.Now().Add(answer)); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { _, err := k.client.Write(text); done <- err }()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(k.client, got); err != nil {
		return err
	}
	if !bytes.Equal(got, text) {
		return errors.New("received other bytes than were sent")
	}
	return <-done
}

// Queues of a socket in repair mode, and the value that ends this mode without a window probe
// (include/uapi/linux/tcp.h).
const receiveQueue, sendQueue, repairEnds = 1, 2, -1

// due returns the segment that the server sends next, without a payload.
func (k connection) due() (s segment, err error) {
	s.from, s.to = addrPort(k.server.LocalAddr()), addrPort(k.server.RemoteAddr())
	raw, err := k.server.SyscallConn()
	if err != nil {
		return s, err
	}
	control := raw.Control(func(fd uintptr) {
		number := func(queue int) uint32 {
			err = errors.Join(err, unix.SetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_REPAIR_QUEUE, queue))
			n, failed := unix.GetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_QUEUE_SEQ)
			err = errors.Join(err, failed)
			return uint32(n)
		}
		err = unix.SetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_REPAIR, 1)
		s.seq, s.ack = number(sendQueue), number(receiveQueue)
		err = errors.Join(err, unix.SetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_REPAIR, repairEnds))
	})
	return s, errors.Join(control, err)
}

func addrPort(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }
