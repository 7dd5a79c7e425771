package conntrack

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Conntrack is the connection tracking of one network namespace, in all its
// zones. It is not safe for use by several goroutines.
type Conntrack struct {
	// dial opens a socket. Each call has one of its own, so that what it leaves
	// unread after an error is never taken for the answer to another.
	dial func() (*netlink.Conn, error)
	// unfiltered tells that the kernel does not filter, and sends everything
	// whatever it is asked for.
	unfiltered bool
	// entryCount is how many entries there were when last all of a kind were looked at.
	entryCount map[countKey]int
}

// countKey is what entries are counted by.
type countKey struct {
	family   model.Family
	protocol model.Protocol
}

// Config says where to find the connection tracking.
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the
	// calling thread.
	NetNS int
	// Unfiltered does without the kernel's filters, as kernels before 5.8 do.
	Unfiltered bool
}

// dumpPiece is the size of the pieces that the table comes in. The kernel makes
// none larger than 32 KiB.
const dumpPiece = 64 << 10

// New makes a Conntrack; nothing is opened yet.
func New(c Config) *Conntrack {
	dial := func() (*netlink.Conn, error) {
		return netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: c.NetNS, MessageBufferSize: dumpPiece})
	}
	return &Conntrack{dial: dial, unfiltered: c.Unfiltered, entryCount: map[countKey]int{}}
}

// Entry is one flow that the kernel keeps track of.
type Entry struct {
	Protocol model.Protocol
	// Original is where the flow's first packet was sent to, before any
	// translation.
	Original netip.AddrPort
	// Reply is where answers come from: the endpoint that was chosen for the flow,
	// or Original where its destination was not translated.
	Reply netip.AddrPort
	// key are the attributes by which the kernel finds the entry again; empty in
	// one that was made elsewhere.
	key string
}

// Family is the entry's.
func (e Entry) Family() model.Family { return model.FamilyOf(e.Original.Addr()) }

// Query says which entries to look at.
type Query struct {
	Family   model.Family
	Protocol model.Protocol
	// Ports are those of original destinations that matter, without duplicates; none
	// means that all do. They spare work and decide nothing: entries of other ports
	// may be seen too.
	Ports []uint16
}

// anyPort stands for all ports.
const anyPort = 0

// The kernel walks all buckets of its table for each port that it is asked for on
// its own. That takes as long as to send 13,000 entries: 30 ms with the usual
// 262,144 buckets. When last counted is long ago, too many ports would cost too
// much, so there is a limit.
const (
	entriesPerWalk = 13_000
	maxWalks       = 8
)

// portsToList are the ports to ask the kernel for, each on its own.
func (c *Conntrack) portsToList(q Query) []uint16 {
	few := min(maxWalks, 1+c.entryCount[countKey{q.Family, q.Protocol}]/entriesPerWalk)
	if c.unfiltered || len(q.Ports) == 0 || len(q.Ports) > few {
		return []uint16{anyPort}
	}
	return q.Ports
}

// List returns the entries that are wanted, of those that the query matches.
// An entry that ends or begins meanwhile may be missing. Want must not call
// anything of c.
func (c *Conntrack) List(q Query, want func(Entry) bool) ([]Entry, error) {
	var all []Entry
	for _, port := range c.portsToList(q) {
		entries, err := c.list(q, port, want)
		if err != nil {
			return nil, fmt.Errorf("list %s flows of %s: %w", q.Protocol, q.Family, explainError(err))
		}
		all = append(all, entries...)
		if c.unfiltered {
			break // the first answer was about all ports
		}
	}
	return all, nil
}

// maxListTries is how often a list begins again because it was interrupted.
const maxListTries = 5

// list asks the kernel for the entries of one port, until it gives them in one
// piece. A kernel that does not know the filter is asked for everything.
func (c *Conntrack) list(q Query, port uint16, want func(Entry) bool) (entries []Entry, err error) {
	for range maxListTries {
		entries, err = c.dump(q, port, want)
		if !c.unfiltered && isUnsupported(err) {
			c.unfiltered = true
			entries, err = c.dump(q, anyPort, want)
		}
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return entries, err
}

// deleteBatch is how many entries are deleted by one message to the kernel. If
// none of them is there any more, so many errors must find room in the socket's
// buffer, which by default takes about 270.
const deleteBatch = 200

// Delete ends the entries and returns how many of them were still there, also
// with an error.
func (c *Conntrack) Delete(entries []Entry) (int, error) {
	deleted := 0
	for len(entries) > 0 {
		some := entries[:min(len(entries), deleteBatch)]
		entries = entries[len(some):]
		n, err := c.deleteSome(some)
		deleted += n
		if err != nil {
			return deleted, fmt.Errorf("delete %d flows: %w", len(some), explainError(err))
		}
	}
	return deleted, nil
}
