package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	stdsync "sync"
	"sync/atomic"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab/sctp"
	"kube-vmap/model"
)

// Host is a network namespace of the lab that can serve and ask. Its methods may be
// called concurrently.
type Host struct {
	// Name is unique in the lab, and in the answers of the host's servers: "pod-1",
	// "remote-1", "third-1", "node-1", "node-2", "node-3" or "outside".
	Name string

	addrs   [2]netip.Addr
	ns      *namespace
	nl      *netlink.Handle
	cleanup cleanup

	fresh atomic.Uint32 // counts fresh ports

	mu   stdsync.Mutex
	sctp map[netip.Addr]*sctp.Listener
}

// newHost creates a host with no link except lo, which is up. The caller must close
// it.
func newHost(name string, addrs [2]netip.Addr) (*Host, error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, fmt.Errorf("create host %s: %w", name, err)
	}
	h := &Host{Name: name, addrs: addrs, ns: ns, sctp: map[netip.Addr]*sctp.Listener{}}
	h.fresh.Store(rand.Uint32N(freshPorts))
	_, _ = h.cleanup.add(ns.close)
	if err := h.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("create host %s: %w", name, err), h.close())
	}
	return h, nil
}

// Alone creates a host outside of any lab, without links, for tests that only need
// nf_tables of their own. done closes it.
func Alone() (h *Host, done func() error, err error) {
	h, err = newHost("alone", [2]netip.Addr{})
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

// String returns the host's name.
func (h *Host) String() string { return h.Name }

// Addr returns the host's address of a family. For a node it is the address on the
// link to the outside.
func (h *Host) Addr(f model.Family) netip.Addr { return h.addrs[f] }

// AddrPort returns a port at [Host.Addr].
func (h *Host) AddrPort(f model.Family, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(h.addrs[f], port)
}

// Do runs fn on an operating system thread in the host's network namespace, and
// returns its error. Sockets that fn opens stay in the namespace, goroutines that it
// starts do not run in it. fn runs in a goroutine of its own and must return: it must
// not call FailNow of a test.
func (h *Host) Do(fn func() error) error { return h.ns.do(fn) }

// FD returns a descriptor of the host's network namespace, for libraries that enter
// it themselves. It is valid until the host closes. The caller must not close it.
func (h *Host) FD() int { return int(h.ns.fd) }

// AddAddress adds an address to eth0, to ask from and to serve at; see
// [Host.ServeAt]. Servers that run already do not serve it.
func (h *Host) AddAddress(a netip.Addr) error {
	eth0, err := h.link("eth0")
	if err != nil {
		return err
	}
	if err := eth0.up(hostPrefix(a)); err != nil {
		return err
	}
	return eth0.await(hostPrefix(a))
}

// AddRoute adds or replaces the route for a prefix: by the gateway via, a neighbour
// on eth0.
func (h *Host) AddRoute(to netip.Prefix, via netip.Addr) error {
	eth0, err := h.link("eth0")
	if err != nil {
		return err
	}
	return eth0.route(to, via)
}

// Cmd is an [exec.Cmd] that runs in a host's network namespace, with the file system
// of the machine.
type Cmd struct {
	*exec.Cmd
	host    *Host
	stop    context.CancelFunc
	release func() error
}

// Command returns a command. The process, but not its children, is killed when ctx
// ends, the host closes or this process dies in any way. The caller must wait for it
// also then.
func (h *Host) Command(ctx context.Context, name string, args ...string) *Cmd {
	ctx, stop := context.WithCancel(ctx)
	return &Cmd{Cmd: exec.CommandContext(ctx, name, args...), host: h, stop: stop}
}

// Start is [exec.Cmd.Start], in the namespace.
func (c *Cmd) Start() (err error) {
	c.release, err = c.host.cleanup.add(func() error { c.stop(); return nil })
	if err != nil {
		return err
	}
	// The kernel sends the signal when the starting thread ends. Threads of the lab
	// end only if they cannot be returned to their network namespace.
	attributes := syscall.SysProcAttr{}
	if c.SysProcAttr != nil {
		attributes = *c.SysProcAttr // the caller may share it
	}
	attributes.Pdeathsig = syscall.SIGKILL
	c.SysProcAttr = &attributes
	if err := c.host.Do(c.Cmd.Start); err != nil {
		return errors.Join(err, c.release())
	}
	return nil
}

// Wait is [exec.Cmd.Wait].
func (c *Cmd) Wait() error { return errors.Join(c.Cmd.Wait(), c.release()) }

// Run is [exec.Cmd.Run], in the namespace.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output is [exec.Cmd.Output], in the namespace, but does not keep stderr.
func (c *Cmd) Output() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout = &out
	err := c.Run()
	return out.Bytes(), err
}

// CombinedOutput is [exec.Cmd.CombinedOutput], in the namespace.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// sysctl is a setting under /proc/sys/net of one network namespace.
type sysctl struct{ key, value string }

// hostSysctls make a host predictable. New interfaces inherit "default".
var hostSysctls = []sysctl{
	// Allow asymmetric routes.
	{"ipv4/conf/all/rp_filter", "0"},
	{"ipv4/conf/default/rp_filter", "0"},
	// Addresses work immediately.
	{"ipv6/conf/all/disable_ipv6", "0"},
	{"ipv6/conf/default/disable_ipv6", "0"},
	{"ipv6/conf/all/accept_dad", "0"},
	{"ipv6/conf/default/accept_dad", "0"},
	// Only the lab sets routes, even if a packet leaves by the interface it came from.
	{"ipv6/conf/default/accept_ra", "0"},
	{"ipv6/conf/default/accept_redirects", "0"},
	{"ipv4/conf/all/accept_redirects", "0"},
	{"ipv4/conf/default/accept_redirects", "0"},
	// No rate limit for ICMP errors, so that every refusal is reported. IPv6 needs a
	// non-empty list of limited types, so it has a reserved one.
	{"ipv4/icmp_ratemask", "0"},
	{"ipv6/icmp/ratemask", "127"},
}

// nodeSysctls also make a host a router.
var nodeSysctls = []sysctl{
	{"ipv4/ip_forward", "1"},
	{"ipv6/conf/all/forwarding", "1"},
	{"ipv6/conf/default/forwarding", "1"},
	{"ipv4/conf/all/send_redirects", "0"},
	{"ipv4/conf/default/send_redirects", "0"},
}

// set writes settings. /proc/sys/net belongs to the namespace of the thread that
// opens a file there.
func (h *Host) set(settings []sysctl) error {
	return h.Do(func() error {
		for _, s := range settings {
			if err := os.WriteFile(filepath.Join("/proc/sys/net", s.key), []byte(s.value), 0); err != nil {
				return fmt.Errorf("set sysctl %s of %s: %w", s.key, h.Name, err)
			}
		}
		return nil
	})
}
