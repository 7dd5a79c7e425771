package takeover

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// An observation is a connection, and where connection tracking sent it.
type observation struct {
	err error // why it failed
	// known is whether connection tracking could be observed.
	known bool
	// reply is the address of which an answer was expected when the first packet had passed all
	// rules; invalid if it did not pass.
	reply netip.AddrPort
}

// observe connects as connect does.
func observe(ctx context.Context, to netip.AddrPort) (o observation) {
	var watch *conntrack.Watch
	d := net.Dialer{Timeout: connectTimeout, Control: func(_, _ string, c syscall.RawConn) (err error) {
		e := c.Control(func(fd uintptr) {
			var port uint16
			if port, err = bind(int(fd), to.Addr()); err == nil && watch == nil {
				watch, err = conntrack.NewWatch(model.FamilyOf(to.Addr()), port)
			}
		})
		return errors.Join(e, err)
	}}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err == nil {
		err = c.Close()
	}
	o.err = err
	if watch == nil {
		return o
	}
	e, _, err := watch.Find(model.TCP, to)
	o.known, o.reply = errors.Join(err, watch.Close()) == nil, e.Reply
	return o
}

// bind binds a socket to a free port, before it connects, and returns the port.
func bind(fd int, to netip.Addr) (uint16, error) {
	var free unix.Sockaddr = &unix.SockaddrInet4{}
	if to.Is6() {
		free = &unix.SockaddrInet6{}
	}
	if err := unix.Bind(fd, free); err != nil {
		return 0, err
	}
	own, err := unix.Getsockname(fd)
	switch own := own.(type) {
	case *unix.SockaddrInet4:
		return uint16(own.Port), err
	case *unix.SockaddrInet6:
		return uint16(own.Port), err
	}
	return 0, err
}
