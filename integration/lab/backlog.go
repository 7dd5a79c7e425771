package lab

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Backlog is a TCP port whose connections no one accepts: the kernel completes handshakes
// until the backlog is full. Another process can inherit the socket, and accept.
type Backlog struct{ *net.TCPListener }

// Backlog listens for TCP on a port of all addresses of the host. It ends with the host.
func (h *Host) Backlog(port uint16) (b Backlog, err error) {
	err = h.Do(func() error {
		var c net.ListenConfig
		l, err := c.Listen(context.Background(), "tcp", fmt.Sprintf(":%d", port))
		if err == nil {
			b.TCPListener = l.(*net.TCPListener)
		}
		return err
	})
	if err == nil {
		_, err = h.cleanup.add(b.Close)
	}
	if err != nil {
		return b, fmt.Errorf("listen on port %d of %s: %w", port, h.Name, err)
	}
	return b, nil
}

// Shrink makes the backlog full as soon as one connection is in it. The kernel then drops
// every SYN, as it does when a process has accepted nothing for a while.
func (b Backlog) Shrink() error {
	raw, err := b.SyscallConn()
	if err != nil {
		return err
	}
	control := raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), 0) })
	return errors.Join(control, err)
}

// AnswerOn answers questions on a listener as a host of this name, until it is closed: for a
// process that inherited the listener.
func AnswerOn(l net.Listener, name string) error {
	return ignoreClosed((&Host{Name: name}).accept(l, &connections{}))
}
