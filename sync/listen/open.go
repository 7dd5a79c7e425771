package listen

import (
	"context"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// networks are Go's names of TCP in each family. With them, a listener is of that
// family only (IPV6_V6ONLY).
var networks = [len(model.Families)]string{model.IPv4: "tcp4", model.IPv6: "tcp6"}

// open opens a socket.
func open(ctx context.Context, socket Socket) (net.Listener, error) {
	c := net.ListenConfig{Control: freebind}
	// Go would offer Multipath TCP, of which a connection within a node, or one
	// with a question and an answer, has nothing.
	c.SetMultipathTCP(false)
	return c.Listen(ctx, networks[model.FamilyOf(socket.Addr.Addr())], socket.Addr.String())
}

// freebind allows addresses that are not there (ip(7), ipv6(7)). They may be on
// their way: for the first second or two, until it is certain that no neighbour
// has it, the kernel lets nobody else bind to a new IPv6 address (RFC 4862, 5.4).
// One that went will be closed.
func freebind(network, _ string, c syscall.RawConn) error {
	level, option := unix.IPPROTO_IP, unix.IP_FREEBIND
	if network == networks[model.IPv6] {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_FREEBIND
	}
	var set error
	err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), level, option, 1) })
	return errors.Join(err, set)
}
