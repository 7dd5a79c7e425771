package conntrack

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/socket"
)

// Conntrack is the connection tracking of one network namespace, in all its zones. It is
// not safe for concurrent use.
type Conntrack struct {
	// dial opens a socket. Each call has one of its own, so that what is left unread after
	// an error is never taken for the answer to another request.
	dial func() (*netlink.Conn, error)
	// unfiltered is true if the kernel does not filter, and sends all entries whatever it
	// is asked for.
	unfiltered bool
	// repliesProbed is true once repliesFiltered is known: whether the kernel filters by the
	// source of replies.
	repliesProbed, repliesFiltered bool
	// entryCount is the number of entries when all of a kind were last read.
	entryCount map[countKey]int
}

// countKey is what entries are counted by.
type countKey struct {
	family   model.Family
	protocol model.Protocol
}

// Config is the configuration of a [Conntrack].
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the
	// calling thread.
	NetNS int
	// Unfiltered does without the kernel's filters, as on kernels before 5.8.
	Unfiltered bool
}

// New returns a Conntrack; sockets are opened when they are needed.
func New(c Config) *Conntrack {
	return &Conntrack{
		dial:       func() (*netlink.Conn, error) { return socket.Open(c.NetNS) },
		unfiltered: c.Unfiltered, entryCount: map[countKey]int{},
	}
}

// An Entry is a flow that the kernel tracks.
type Entry struct {
	Protocol model.Protocol
	// Client and Original are the source and the destination of the flow's first packet, before
	// any translation.
	Client, Original netip.AddrPort
	// Reply is the source of replies: the endpoint that was chosen for the flow, or Original if
	// its destination was not translated. SeenSource is the source that the endpoint sees.
	Reply, SeenSource netip.AddrPort
	// ID is the kernel's number of the entry. It stays while the entry exists, and hardly
	// ever occurs twice.
	ID     uint32
	Status uint32 // IPS_*
	Mark   uint32
	Labels [16]byte
	// Offloaded reports whether packets of the flow take a flowtable, and pass neither rules
	// nor connection tracking. The kernel sends neither state nor time-out of such an entry.
	Offloaded bool
	// Open reports whether the connection is being opened or is open, Closed whether both sides
	// have ended it. Entries of other protocols than TCP, which do not outlive their packets for
	// long, are always open.
	Open, Closed bool
	// Replied reports whether the endpoint has sent anything back. A refusal over UDP, which
	// is an ICMP error, does not count.
	Replied bool
	// Aborted reports whether the endpoint refused an association of SCTP. Refused
	// connections of TCP have no entry: the kernel deletes it with the reset.
	Aborted bool
	State   string        // of TCP or SCTP, as conntrack -L prints it
	Expires time.Duration // if no packet comes
	Started time.Time     // if the kernel knows (net.netfilter.nf_conntrack_timestamp)
	Reopens bool          // whether a first packet begins a new connection
	// key are the attributes by which the kernel finds the entry again; empty if the
	// entry was not listed to be deleted.
	key string
}

// Family returns the family of the entry.
func (e *Entry) Family() model.Family { return model.FamilyOf(e.Original.Addr()) }

// A Query selects entries.
type Query struct {
	Family   model.Family
	Protocol model.Protocol
	// Ports are ports of original destinations, without duplicates; none means all. They
	// only save work: entries of other ports may be returned, too.
	Ports []uint16
}

// anyPort means all ports.
const anyPort = 0

// The kernel walks all buckets of its table for each request with a port. That takes as
// long as sending 13,000 entries: 30 ms with the usual 262,144 buckets. The count of entries
// may be old, so there is a limit on the number of walks.
const (
	entriesPerWalk = 13_000
	maxWalks       = 8
)

// portsToList returns the ports to request, each by itself.
func (c *Conntrack) portsToList(q Query) []uint16 {
	few := min(maxWalks, 1+c.entryCount[countKey{q.Family, q.Protocol}]/entriesPerWalk)
	if c.unfiltered || len(q.Ports) == 0 || len(q.Ports) > few {
		return []uint16{anyPort}
	}
	return q.Ports
}

// List returns the entries that match the query and for which want returns true. An entry
// that begins or ends meanwhile may be missing. Want must not call methods of c.
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

// maxListTries is how often a list is started because it was interrupted.
const maxListTries = 5

// list reads the entries of one port, as far as the kernel's filter lets them through. If the kernel
// does not support the filter, it reads all entries.
func (c *Conntrack) list(q Query, port uint16, want func(Entry) bool) (entries []Entry, err error) {
	seen := 0
	read := func() error {
		return c.walk(encodeList(q, port, !c.unfiltered), func() { entries, seen = nil, 0 }, func(e Entry, raw rawEntry) {
			if e.Family() != q.Family || e.Protocol != q.Protocol {
				c.unfiltered = true // a kernel that knows no filter sends everything
				return
			}
			if port != anyPort && e.Original.Port() != port {
				c.unfiltered = true
			}
			if seen++; want(e) {
				e.key = raw.key()
				entries = append(entries, e)
			}
		})
	}
	if err = read(); isUnsupported(err) && !c.unfiltered {
		c.unfiltered, port = true, anyPort
		err = read()
	}
	if err != nil {
		return nil, err
	}
	if port == anyPort || c.unfiltered {
		c.entryCount[countKey{q.Family, q.Protocol}] = seen
	}
	return entries, nil
}

// walk sends a request for a dump and calls fn for each entry, until it was not interrupted. Begin is
// called first, and again if the kernel's table was rebuilt meanwhile and the walk starts over.
func (c *Conntrack) walk(request netlink.Message, begin func(), fn func(Entry, rawEntry)) (err error) {
	for range maxListTries {
		begin()
		if err = c.walkOnce(request, fn); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return err
}

func (c *Conntrack) walkOnce(request netlink.Message, fn func(Entry, rawEntry)) (err error) {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.Send(request); err != nil {
		return err
	}
	for m, err := range conn.ReceiveIter() {
		switch {
		case err != nil:
			return err
		case m.Header.Flags&netlink.DumpInterrupted != 0:
			return unix.EINTR
		}
		if e, raw, known := decode(m.Data); known {
			fn(e, raw)
		}
	}
	return nil
}

// deleteBatch is how many entries are deleted by one message. If none of them exists any
// more, so many errors must fit in the socket's buffer.
const deleteBatch = 200

// Delete deletes entries and returns how many of them still existed, also with an error.
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

// deleteSome deletes the entries in one call and returns how many of them still existed. The
// kernel answers with an error for each one that did not, and for the last one in any case.
func (c *Conntrack) deleteSome(entries []Entry) (deleted int, err error) {
	conn, err := c.dial()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	messages := make([]netlink.Message, len(entries))
	for i, e := range entries {
		messages[i] = encodeDelete(e)
	}
	messages[len(messages)-1].Header.Flags |= netlink.Acknowledge
	sent, err := conn.SendMessages(messages)
	if err != nil {
		return 0, err
	}
	last, gone := sent[len(sent)-1].Header.Sequence, 0
	for {
		_, err := conn.Receive()
		var answer *netlink.OpError
		switch {
		case err == nil:
			return len(entries) - gone, nil
		case !errors.Is(err, unix.ENOENT) || !errors.As(err, &answer):
			return 0, err
		}
		gone++
		if answer.Sequence == last {
			return len(entries) - gone, nil
		}
	}
}
