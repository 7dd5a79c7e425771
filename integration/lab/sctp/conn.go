package sctp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// For a client, an ABORT of the peer is like a reset in TCP.
var (
	errRefused = fmt.Errorf("refused with ABORT: %w", syscall.ECONNREFUSED)
	errAborted = fmt.Errorf("aborted by the peer: %w", syscall.ECONNRESET)
)

// Conn is a client's association with a server. It is established with the first
// message, so that handshake and question share packets. A Conn must be used by one
// goroutine.
type Conn struct {
	ip            *net.IPConn
	local, remote netip.AddrPort

	tag, peerTag uint32 // peerTag is 0 while there is no association
	tsn          uint32
	sequence     uint16
	buf          [maxPacket]byte
}

// Dial opens a raw socket to remote in the network namespace of the calling thread;
// nothing is sent yet. With an invalid address in local, the routing table chooses
// one; with port 0, a random one is used. The caller must close it.
func Dial(local, remote netip.AddrPort) (*Conn, error) {
	ip, err := net.DialIP(network(remote.Addr()), ipAddr(local.Addr()), ipAddr(remote.Addr()))
	if err != nil {
		return nil, fmt.Errorf("open SCTP socket to %s: %w", remote, err)
	}
	if err := errors.Join(prepare(ip, remote.Addr()), wantErrors(ip, remote.Addr())); err != nil {
		return nil, errors.Join(err, ip.Close())
	}
	port := local.Port()
	if port == 0 {
		port = ephemeral()
	}
	addr, _ := netip.AddrFromSlice(ip.LocalAddr().(*net.IPAddr).IP)
	return &Conn{
		ip: ip, local: netip.AddrPortFrom(addr.Unmap(), port), remote: remote,
		tag: newTag(), tsn: rand.Uint32(),
	}, nil
}

func ipAddr(a netip.Addr) *net.IPAddr {
	if !a.IsValid() {
		return nil
	}
	return &net.IPAddr{IP: a.AsSlice()}
}

// lastPort has a random start, so that two processes rarely use the same ports.
var lastPort = rand.Uint32()

// ephemeral returns a port of the kernel's usual range. The kernel does not assign
// ports to raw sockets. A process does not repeat a port within 28,000 calls.
func ephemeral() uint16 { return uint16(32768 + atomic.AddUint32(&lastPort, 1)%28000) }

// Send sends a message, after establishing the association if there is none. It
// returns the local address and port. The error wraps ECONNREFUSED if the peer or a
// host on the path refuses, ECONNRESET if the peer aborts an association, another
// errno for other ICMP errors, and os.ErrDeadlineExceeded if nothing came before the
// deadline.
func (c *Conn) Send(message []byte, deadline time.Time) (netip.AddrPort, error) {
	if err := c.ip.SetDeadline(deadline); err != nil {
		return c.local, err
	}
	var chunks []chunk
	if c.peerTag == 0 {
		echo, err := c.initiate()
		if err != nil {
			return c.local, fmt.Errorf("associate with %s: %w", c.remote, err)
		}
		chunks = append(chunks, echo)
	}
	chunks = append(chunks, data(c.tsn, c.sequence, message))
	c.tsn++
	c.sequence++
	return c.local, c.write(c.peerTag, chunks...)
}

// initiate sends INIT and returns the COOKIE ECHO for the INIT ACK.
func (c *Conn) initiate() (chunk, error) {
	if err := c.write(0, chunk{kind: typeInit, value: words(c.tag, window, oneStream, c.tsn)}); err != nil {
		return chunk{}, err
	}
	ack, err := c.await(typeInitAck)
	c.peerTag = ack.word(0)
	return chunk{kind: typeCookieEcho, value: words(ack.word(5))}, err
}

// Receive waits for the next message, with the errors of [Conn.Send]. The
// message is valid until the next call.
func (c *Conn) Receive(deadline time.Time) ([]byte, error) {
	if err := c.ip.SetDeadline(deadline); err != nil {
		return nil, err
	}
	got, err := c.await(typeData)
	if err != nil {
		return nil, fmt.Errorf("receive from %s: %w", c.remote, err)
	}
	return got.value[min(dataHeaderSize, len(got.value)):], nil
}

// await reads packets until one of this association has a chunk of a type.
func (c *Conn) await(kind uint8) (chunk, error) {
	for {
		n, _, err := c.ip.ReadFromIP(c.buf[:])
		if err := c.settle(err); err != nil {
			return chunk{}, err
		}
		p, err := decode(c.buf[:n])
		if err != nil || !c.owns(p) {
			continue
		}
		if _, aborted := p.find(typeAbort); aborted {
			return chunk{}, c.aborted()
		}
		if got, ok := p.find(kind); ok {
			return got, nil
		}
	}
}

// owns reports whether a packet belongs to this association, and not to other clients
// and servers in the same network namespace.
func (c *Conn) owns(p packet) bool {
	if p.source != c.remote.Port() || p.destination != c.local.Port() {
		return false
	}
	abort, ok := p.find(typeAbort)
	reflected := ok && abort.flags&flagReflected != 0 && c.peerTag != 0 && p.tag == c.peerTag
	return p.tag == c.tag || reflected
}

// aborted ends the association; the next message would establish a new one.
func (c *Conn) aborted() error {
	if c.peerTag == 0 {
		return errRefused
	}
	c.peerTag = 0
	return errAborted
}

func (c *Conn) write(tag uint32, chunks ...chunk) (err error) {
	p := packet{source: c.local.Port(), destination: c.remote.Port(), tag: tag, chunks: chunks}
	b, most := p.encode(), 100
	for range most {
		_, err = c.ip.Write(b)
		if err == nil || errors.Is(err, syscall.EPERM) {
			// EPERM means that a filter of the same host dropped the packet. As with other
			// filters, the answer shows whether it also rejects.
			return nil
		}
		if err := c.settle(err); err != nil {
			return err
		}
		// The error was about a packet of another socket. The kernel reports each once.
	}
	return err
}

// settle handles a socket error: it returns the errno of an ICMP error if it is about
// a packet of this association, and ignores it otherwise.
func (c *Conn) settle(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) || !slices.Contains(fromICMP, errno) {
		return err
	}
	return queuedError(c.ip, c.local.Port(), c.remote.Port())
}

// fromICMP are the errors that the kernel returns for ICMP messages.
var fromICMP = []syscall.Errno{
	syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENOPROTOOPT, syscall.EPROTO,
	syscall.EACCES, syscall.EHOSTDOWN, syscall.ENONET, syscall.EMSGSIZE,
}

// Close aborts the association, if there is one, and closes the socket.
func (c *Conn) Close() error {
	if c.peerTag != 0 {
		// It may get lost: the server keeps the association until the lab closes.
		_ = c.ip.SetDeadline(time.Now().Add(time.Second))
		_ = c.write(c.peerTag, chunk{kind: typeAbort, value: words(causeUserAbort)})
	}
	return c.ip.Close()
}
