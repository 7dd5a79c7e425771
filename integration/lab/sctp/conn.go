package sctp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// An ABORT of the peer is to a client what a reset is in TCP.
var (
	errRefused = fmt.Errorf("refused with ABORT: %w", syscall.ECONNREFUSED)
	errAborted = fmt.Errorf("aborted by the peer: %w", syscall.ECONNRESET)
)

// Conn is a client's association with a server. It is made with the first
// message, so that handshake and question share packets. A Conn is for one
// goroutine.
type Conn struct {
	ip            *net.IPConn
	local, remote netip.AddrPort

	tag, peerTag uint32 // peerTag is 0 as long as there is no association
	tsn          uint32
	sequence     uint16
	buf          [maxPacket]byte
}

// Dial opens a raw socket to talk with remote, in the network namespace of the
// calling thread; nothing is sent yet. An invalid address or port 0 in local
// leaves the choice to the routing table or to chance. It must be closed.
func Dial(local, remote netip.AddrPort) (*Conn, error) {
	ip, err := net.DialIP(network(remote.Addr()), ipAddr(local.Addr()), ipAddr(remote.Addr()))
	if err != nil {
		return nil, fmt.Errorf("open SCTP socket to %s: %w", remote, err)
	}
	if err := errors.Join(leaveChecksum(ip, remote.Addr()), wantErrors(ip, remote.Addr())); err != nil {
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

// lastPort begins at random, so that two processes rarely meet.
var lastPort = rand.Uint32()

// ephemeral picks a port of the kernel's usual range. Nobody hands out ports to
// raw sockets; a process never takes the same one twice in a row of 28,000.
func ephemeral() uint16 { return uint16(32768 + atomic.AddUint32(&lastPort, 1)%28000) }

// Send sends a message, after making the association if there is none. It
// returns the local address and port. The error wraps ECONNREFUSED if the
// peer, or somebody on the way, refuses, ECONNRESET if the peer aborts an
// association, another errno for other ICMP errors, and os.ErrDeadlineExceeded
// if nothing came until the deadline.
func (c *Conn) Send(message []byte, deadline time.Time) (netip.AddrPort, error) {
	if err := c.ip.SetDeadline(deadline); err != nil {
		return c.local, err
	}
	var chunks []Chunk
	if c.peerTag == 0 {
		echo, err := c.initiate()
		if err != nil {
			return c.local, fmt.Errorf("associate with %s: %w", c.remote, err)
		}
		chunks = append(chunks, echo)
	}
	data := Data{TSN: c.tsn, Sequence: c.sequence, Payload: message}
	c.tsn++
	c.sequence++
	return c.local, c.write(c.peerTag, append(chunks, data.Chunk())...)
}

// initiate sends INIT and turns the INIT ACK into the COOKIE ECHO to answer it.
func (c *Conn) initiate() (Chunk, error) {
	if err := c.write(0, Init{Tag: c.tag, TSN: c.tsn}.Chunk(TypeInit)); err != nil {
		return Chunk{}, err
	}
	ack, err := c.await(TypeInitAck)
	if err != nil {
		return Chunk{}, err
	}
	init, err := DecodeInit(ack)
	if err != nil {
		return Chunk{}, err
	}
	c.peerTag = init.Tag
	return Chunk{Type: TypeCookieEcho, Value: append([]byte(nil), init.Cookie...)}, nil
}

// Receive waits for the next message, with the errors of [Conn.Send]. The
// message is valid until the next call.
func (c *Conn) Receive(deadline time.Time) ([]byte, error) {
	if err := c.ip.SetDeadline(deadline); err != nil {
		return nil, err
	}
	chunk, err := c.await(TypeData)
	if err != nil {
		return nil, fmt.Errorf("receive from %s: %w", c.remote, err)
	}
	data, err := DecodeData(chunk)
	return data.Payload, err
}

// await reads packets until one of ours has a chunk of type t.
func (c *Conn) await(t ChunkType) (Chunk, error) {
	for {
		n, _, err := c.ip.ReadFromIP(c.buf[:])
		if err := c.settle(err); err != nil {
			return Chunk{}, err
		}
		p, err := Decode(c.buf[:n])
		if err != nil || !c.owns(p) {
			continue
		}
		if _, aborted := p.Find(TypeAbort); aborted {
			return Chunk{}, c.aborted()
		}
		if chunk, ok := p.Find(t); ok {
			return chunk, nil
		}
	}
}

// owns tells our packets from those of other clients and of servers in the same
// network namespace.
func (c *Conn) owns(p Packet) bool {
	if p.Source != c.remote.Port() || p.Destination != c.local.Port() {
		return false
	}
	abort, ok := p.Find(TypeAbort)
	reflected := ok && abort.Flags&flagReflected != 0 && c.peerTag != 0 && p.Tag == c.peerTag
	return p.Tag == c.tag || reflected
}

// aborted is the end of the association; the next message would make a new one.
func (c *Conn) aborted() error {
	if c.peerTag == 0 {
		return errRefused
	}
	c.peerTag = 0
	return errAborted
}

func (c *Conn) write(tag uint32, chunks ...Chunk) error {
	p := Packet{Source: c.local.Port(), Destination: c.remote.Port(), Tag: tag, Chunks: chunks}
	b := p.Encode()
	_, err := c.ip.Write(b)
	if err == nil || errors.Is(err, syscall.EPERM) {
		// With EPERM the kernel tells that its own filter stopped the packet. As for
		// any other filter, whether it refuses or is silent remains to be seen.
		return nil
	}
	if err := c.settle(err); err != nil {
		return err
	}
	// The error was about somebody else's packet, and it is told once.
	_, err = c.ip.Write(b)
	return err
}

// settle decides what a socket error means to this association: an ICMP error
// is returned as its errno if it is about one of our packets, else forgotten.
func (c *Conn) settle(err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	if !fromICMP(errno) {
		return err
	}
	return queuedError(c.ip, c.local.Port(), c.remote.Port())
}

// fromICMP tells the errors that the kernel makes of ICMP messages.
func fromICMP(e syscall.Errno) bool {
	switch e {
	case syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENOPROTOOPT,
		syscall.EPROTO, syscall.EACCES, syscall.EHOSTDOWN, syscall.ENONET, syscall.EMSGSIZE:
		return true
	}
	return false
}

// Close aborts the association, if there is one, and closes the socket.
func (c *Conn) Close() error {
	if c.peerTag != 0 {
		// If it gets lost, so be it: the server trusts its memory to the lab.
		_ = c.ip.SetDeadline(time.Now().Add(time.Second))
		_ = c.write(c.peerTag, userAbort())
	}
	return c.ip.Close()
}
