package listen

import (
	"context"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// networks are Go's names for TCP of one family only (IPV6_V6ONLY).
var networks = [len(model.Families)]string{model.IPv4: "tcp4", model.IPv6: "tcp6"}

// open listens on a socket.
func open(ctx context.Context, socket Socket) (net.Listener, error) {
	c := net.ListenConfig{Control: freebind}
	// Multipath TCP, Go's default, has no advantage for connections within a node or
	// with a single request.
	c.SetMultipathTCP(false)
	return c.Listen(ctx, networks[model.FamilyOf(socket.Addr.Addr())], socket.Addr.String())
}

// freebind allows addresses that do not exist yet (ip(7), ipv6(7)): the kernel refuses
// to bind to a new IPv6 address for a second or two, until duplicate address detection
// has finished (RFC 4862, 5.4). Sockets of removed addresses are closed soon.
func freebind(network, _ string, c syscall.RawConn) error {
	level, option := unix.IPPROTO_IP, unix.IP_FREEBIND
	if network == networks[model.IPv6] {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_FREEBIND
	}
	var set error
	err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), level, option, 1) })
	return errors.Join(err, set)
}
