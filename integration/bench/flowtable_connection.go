package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	flowPort    = podPort + 1 // of the pod that serves
	roundTrips  = 500
	messageSize = 64
	bulkCount   = 100
	blastSize   = 1_000
)

// bulkSizes are the sizes of long messages. TCP makes packets of them that only the last
// device would split; datagrams have to fit.
var bulkSizes = map[model.Protocol]int{model.TCP: 32 << 10, model.UDP: 1400}

// flow is a connection with both ends in this process.
type flow struct {
	protocol       model.Protocol
	client, server end
}

type end struct{ fd int }

func (c *flow) close() { _, _ = unix.Close(c.client.fd), unix.Close(c.server.fd) }

// connect opens a connection from the client to an address that leads to the server.
func (x *flowLab) connect(p model.Protocol, to netip.AddrPort) (*flow, error) {
	kind := map[model.Protocol]int{model.TCP: unix.SOCK_STREAM, model.UDP: unix.SOCK_DGRAM}[p]
	domain := [...]int{model.IPv4: unix.AF_INET, model.IPv6: unix.AF_INET6}[x.family]
	var listener int
	err := x.server[0].Do(func() (err error) {
		if listener, err = unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
		if err := unix.Bind(listener, sockaddr(x.server[0].AddrPort(x.family, flowPort))); err != nil || p == model.UDP {
			return err
		}
		return unix.Listen(listener, 1)
	})
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	c := &flow{protocol: p, server: end{listener}}
	err = x.from.Do(func() (err error) {
		if c.client.fd, err = unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Connect(c.client.fd, sockaddr(to))
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	if p == model.TCP {
		c.server.fd, _, err = unix.Accept(listener)
		return c, errors.Join(err, unix.Close(listener),
			unix.SetsockoptInt(c.client.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
			unix.SetsockoptInt(c.server.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	}
	if _, err = unix.Write(c.client.fd, make([]byte, messageSize)); err != nil {
		return nil, err
	}
	_, peer, err := unix.Recvfrom(listener, make([]byte, messageSize), 0)
	if err != nil {
		return nil, err
	}
	return c, unix.Connect(listener, peer)
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// roundTrips sends messages back and forth, and returns the time of one round trip.
func (c *flow) roundTrips(n int) (time.Duration, error) {
	message := make([]byte, messageSize)
	start := time.Now()
	for range n {
		err := errors.Join(pass(c.client, c.server, message), pass(c.server, c.client, message))
		if err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(n), nil
}

// bulk sends long messages one way, and returns the time of one.
func (c *flow) bulk() (time.Duration, error) {
	message := make([]byte, bulkSizes[c.protocol])
	start := time.Now()
	for range bulkCount {
		if err := pass(c.client, c.server, message); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / bulkCount, nil
}

// pass writes a message at one end and reads it at the other.
func pass(from, to end, message []byte) error {
	if _, err := unix.Write(from.fd, message); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	for read := 0; read < len(message); {
		n, err := unix.Read(to.fd, message[read:])
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		read += n
	}
	return nil
}

// A frame is a packet of a connection, to be sent again as it is.
type frame struct {
	fd    int
	bytes []byte // after a header of struct virtio_net_hdr
}

func (f *frame) close() error { return unix.Close(f.fd) }

// capture returns a packet that one end of a connection sends.
func (c *flow) capture(from *end, host *lab.Host) (*frame, error) {
	f := &frame{bytes: make([]byte, 2048)}
	err := host.Do(func() (err error) {
		f.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		eth0, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		// With this header, a checksum that the device is to add stays one.
		if err := unix.SetsockoptInt(f.fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
			return err
		}
		return unix.Bind(f.fd, &unix.SockaddrLinklayer{Protocol: 0x0300 /* ETH_P_ALL */, Ifindex: eth0.Index})
	})
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	to := c.server
	if from == &c.server {
		to = c.client
	}
	if err := pass(*from, to, make([]byte, messageSize)); err != nil {
		return nil, err
	}
	for {
		n, sender, err := unix.Recvfrom(f.fd, f.bytes, 0)
		if err != nil {
			return nil, fmt.Errorf("capture a packet: %w", err)
		}
		if ll := sender.(*unix.SockaddrLinklayer); ll.Pkttype == unix.PACKET_OUTGOING && n > messageSize+40 {
			f.bytes = f.bytes[:n]
			// Take no more packets.
			return f, unix.Bind(f.fd, &unix.SockaddrLinklayer{Protocol: 0, Ifindex: ll.Ifindex})
		}
	}
}

// send sends the packet many times, and returns the time of one.
func (f *frame) send() (time.Duration, error) {
	start := time.Now()
	for range blastSize {
		if _, err := unix.Write(f.fd, f.bytes); err != nil {
			return 0, fmt.Errorf("send a captured packet: %w", err)
		}
	}
	return time.Since(start) / blastSize, nil
}
