package lab

import (
	"errors"
	"fmt"
	"net/netip"
	stdsync "sync"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab/sctp"
	"kube-vmap/model"
)

// Host is a network namespace of the lab, with the software to serve and to ask.
// Its methods may be called at the same time.
type Host struct {
	// Name is unique in the lab and what the host's servers call themselves:
	// "pod-1", "remote-1", "node-1", "node-2" or "outside".
	Name string
	// Namespace is the name for `ip netns exec`, empty if it has none.
	Namespace string

	addrs   [2]netip.Addr
	ns      *namespace
	nl      *netlink.Handle
	cleanup cleanup

	fresh atomic.Uint32 // counts fresh ports

	mu   stdsync.Mutex
	sctp map[netip.Addr]*sctp.Listener
}

// newHost makes a host without links, except lo, which is up. It must be closed.
func newHost(names, name string, addrs [2]netip.Addr) (*Host, error) {
	ns, err := newNamespace(fullName(names, name))
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	h := &Host{Name: name, Namespace: ns.name, addrs: addrs, ns: ns, sctp: map[netip.Addr]*sctp.Listener{}}
	_, _ = h.cleanup.add(ns.close)
	if err := h.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("make %s: %w", name, err), h.close())
	}
	return h, nil
}

// Alone makes a host of no lab, without a link to anything, for programs that
// need a kernel's rules to themselves. done closes it.
func Alone() (h *Host, done func() error, err error) {
	h, err = newHost("", "alone", [2]netip.Addr{})
	if err != nil {
		return nil, nil, err
	}
	return h, h.close, nil
}

func (h *Host) prepare() error {
	err := h.Do(func() (err error) { h.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); return err })
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	_, _ = h.cleanup.add(func() error { h.nl.Close(); return nil })
	if err := h.set(hostSysctls); err != nil {
		return err
	}
	lo, err := h.link("lo")
	if err != nil {
		return err
	}
	return lo.up()
}

func (h *Host) close() error { return h.cleanup.close() }

// String is the host's name.
func (h *Host) String() string { return h.Name }

// Addr is the host's address of a family: a pod's own, or a node's on the link
// to the outside.
func (h *Host) Addr(f model.Family) netip.Addr { return h.addrs[f] }

// AddrPort is a port at [Host.Addr].
func (h *Host) AddrPort(f model.Family, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(h.addrs[f], port)
}

// Do runs fn on an operating system thread that is in the host's network
// namespace, and returns its error. Sockets made by fn stay in the namespace;
// goroutines started by fn do not run in it. fn runs in a goroutine of its own
// and must return: a test must not be failed with FailNow in there.
func (h *Host) Do(fn func() error) error { return h.ns.do(fn) }

// FD is a descriptor of the host's network namespace, for libraries that enter
// it by themselves. It is valid as long as the host is, and not to be closed.
func (h *Host) FD() int { return int(h.ns.fd) }

// AddAddress gives the host one more address on its link to the outside world
// (eth0), to ask from and to serve at; see [Host.ServeAt]. Servers that run
// already do not serve it.
func (h *Host) AddAddress(a netip.Addr) error {
	eth0, err := h.link("eth0")
	if err != nil {
		return err
	}
	if err := eth0.up(alone(a)); err != nil {
		return err
	}
	return eth0.await(alone(a))
}

// AddRoute sends what is for a prefix by the gateway via, a neighbour on the
// host's link to the outside world (eth0), in place of a former route for the
// same prefix.
func (h *Host) AddRoute(to netip.Prefix, via netip.Addr) error {
	eth0, err := h.link("eth0")
	if err != nil {
		return err
	}
	return eth0.route(to, via)
}
