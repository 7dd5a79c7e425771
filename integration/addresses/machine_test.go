package addresses

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	stdsync "sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/sync/follow/listen/listentest"
	"kube-vmap/sync/source/addresses"
)

// deadline is how long the kernel may take on a busy machine.
const deadline = time.Minute

// A machine is a network namespace with no interface but lo.
type machine struct {
	*testing.T
	host *lab.Host
	nl   *netlink.Handle
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	host := labtest.Alone(t)
	nl, err := netlink.NewHandleAt(netns.NsHandle(host.FD()), unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nl.Close)
	m := &machine{t, host, nl}
	m.set("ipv6/conf/default/addr_gen_mode", "1") // no link-local addresses but those of the test
	return m
}

// set writes a setting below /proc/sys/net.
func (m *machine) set(key, value string) {
	m.Helper()
	m.must(m.host.Do(func() error {
		return os.WriteFile(filepath.Join("/proc/sys/net", key), []byte(value), 0)
	}))
}

func (m *machine) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// addLink adds a link to another link of the machine, and sets both up.
func (m *machine) addLink(name string) netlink.Link {
	m.Helper()
	far := name + "-far"
	m.must(m.nl.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: far}))
	m.must(m.nl.LinkSetUp(m.link(far)))
	l := m.link(name)
	m.must(m.nl.LinkSetUp(l))
	return l
}

func (m *machine) link(name string) netlink.Link {
	m.Helper()
	l, err := m.nl.LinkByName(name)
	m.must(err)
	return l
}

// address parses "192.0.2.1/24" or "192.0.2.1/32 peer 192.0.2.2/32".
func address(text string) *netlink.Addr {
	own, peer, both := strings.Cut(text, " peer ")
	a, err := netlink.ParseAddr(own)
	if err == nil && both {
		a.Peer, err = netlink.ParseIPNet(peer)
	}
	if err != nil {
		panic(err)
	}
	return a
}

func (m *machine) add(l netlink.Link, addrs ...string) {
	m.Helper()
	for _, a := range addrs {
		m.must(m.nl.AddrAdd(l, address(a)))
	}
}

func (m *machine) remove(l netlink.Link, addrs ...string) {
	m.Helper()
	for _, a := range addrs {
		m.must(m.nl.AddrDel(l, address(a)))
	}
}

// A listener receives a machine's addresses.
type listener struct {
	*machine
	sent <-chan []netip.Prefix
	log  *listentest.LogBuffer
	n    int // lists received
}

// listen starts a listener, until the test ends or the returned function is called.
func (m *machine) listen() (*listener, context.CancelFunc) {
	m.Helper()
	ctx, cancel := context.WithCancel(m.Context())
	sent, done, log := make(chan []netip.Prefix), make(chan error, 1), &listentest.LogBuffer{}
	source := addresses.New(addresses.Config{NetNS: m.host.FD(), Log: slog.New(slog.NewTextHandler(log, nil))})
	go func() { done <- source.Run(ctx, sent) }()
	end := stdsync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			m.Errorf("Run: %v", err)
		}
	})
	m.Cleanup(end)
	return &listener{machine: m, sent: sent, log: log}, end
}

func (l *listener) next() []netip.Prefix {
	l.Helper()
	select {
	case addrs := <-l.sent:
		l.n++
		return addrs
	case <-time.After(deadline):
		l.Fatalf("no list; log:\n%s", l.log)
		return nil
	}
}

// expect waits for exactly these addresses.
func (l *listener) expect(want ...string) {
	l.Helper()
	var last []string
	for end := time.Now().Add(deadline); time.Now().Before(end); {
		last = nil
		for _, a := range l.next() {
			last = append(last, a.String())
		}
		if slices.Equal(last, want) {
			return
		}
	}
	l.Fatalf("got %q, want %q", last, want)
}
