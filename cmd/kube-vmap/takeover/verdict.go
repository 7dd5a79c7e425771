package takeover

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// One author of Services must not be able to return a node. An endpoint may refuse or drop the
// connections that come through its Service, or the first three of them, and answer the others.
// So a failure counts only if the rules can be the reason (see blamesRules), and nothing that
// the author chooses has changed since the endpoints were read (see sample.go). In addition,
// failures of a single namespace count only if nothing else was tried, or if they are those of
// the API server.

// maxRefusedShare is one in how many Service ports the kernel may refuse.
const maxRefusedShare = 20

// shareIsTooLarge reports whether so many refused Service ports, of so many namespaces, fail
// a check.
func shareIsTooLarge(refused, namespaces, ports int) bool {
	return refused >= 2 && namespaces >= 2 && refused*maxRefusedShare > ports
}

// kubernetes is the Service of the API server.
var kubernetes = model.ServiceName{Namespace: "default", Name: "kubernetes"}

// blamesRules reports whether rules can be the reason for a failed connection. If it was
// translated to an endpoint that the API lists and passed all rules, the endpoint is. The
// endpoints of the API server are not those of an author of Services. So a failure to reach
// them may also be due to rules that drop answers.
func blamesRules(s target, o observation, endpoints []netip.AddrPort) bool {
	return s.service.ServiceName == kubernetes || o.known && !slices.Contains(endpoints, o.reply)
}

// decisive reports whether these failures of a sample fail a check.
func decisive(failed []failure, sample []target) bool {
	if len(failed) == 0 {
		return false
	}
	first := failed[0].service.Namespace
	return len(failed) == len(sample) || slices.ContainsFunc(failed, func(f failure) bool {
		return f.service.ServiceName == kubernetes || f.service.Namespace != first
	})
}

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
