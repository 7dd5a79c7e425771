// Package conntrack lists and deletes entries of the kernel's connection tracking. It has
// no policy: callers decide which entries.
//
//	kernel: entries of a protocol, or of one of its ports
//	           |
//	           v  List
//	want(original destination, reply source)? --- no ---> skipped
//	           |
//	          yes
//	           v
//	        []Entry --- Delete ---> kernel: each by its key
//
// A [Watch] reports new entries of one source port, also those that end immediately.
//
// The key is the whole tuple of replies, the zone and the id. If an entry ended meanwhile,
// a new one in its place with another endpoint is left alone.
//
// The kernel can also delete by a filter (CTA_FILTER in CT_DELETE, since Linux 6.11), which is not
// used. By IPv6 address it deletes the wrong entries: the comparison in
// ctnetlink_filter_match_tuple is inverted (seen in 6.1 and 6.18), so the requested entries stay
// and all others are deleted. It does not report how many it deleted, cannot express "none of these
// endpoints", leaves no chance to check an entry first, and is no faster than listing and deleting.
// For the first reason, lists are filtered by protocol, port and status only.
//
// github.com/ti-mo/conntrack is not used: it has no filter by tuple, and takes 1.5 s where
// this package takes 0.03 s to delete 100 of 100,000 entries.
package conntrack

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// Conntrack is the connection tracking of one network namespace, in all its zones. It is
// not safe for concurrent use.
type Conntrack struct {
	// dial opens a socket. Each call has one of its own, so messages left unread after an
	// error are never taken for the reply to another request.
	dial func() (*netlink.Conn, error)
}

// Config is the configuration of a [Conntrack].
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means the calling thread's.
	NetNS int
}

// New returns a Conntrack; sockets are opened when they are needed.
func New(c Config) *Conntrack {
	return &Conntrack{dial: func() (*netlink.Conn, error) { return socket.Open(c.NetNS) }}
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
	// Offloaded reports whether packets of the flow pass neither rules nor connection tracking
	// (IPS_OFFLOAD). The kernel sends neither state nor timeout of such an entry.
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
	Expires time.Duration // if no packet arrives
	Started time.Time     // if the kernel knows (net.netfilter.nf_conntrack_timestamp)
	// key are the attributes that identify the entry to the kernel; empty if the entry
	// was not listed for deletion.
	key string
}

// Family returns the family of the entry.
func (e *Entry) Family() model.Family { return model.FamilyOf(e.Original.Addr()) }

// A Query selects entries.
type Query struct {
	Family   model.Family
	Protocol model.Protocol
	// Port is the port of the original destination; zero means all.
	Port uint16
}

// List returns the entries that match the query and that want selects. An entry that begins or
// ends meanwhile may be missing. Want must not call methods of c.
func (c *Conntrack) List(q Query, want func(Entry) bool) (all []Entry, err error) {
	err = c.walk(encodeList(q), func() { all = nil }, func(e Entry, raw rawEntry) {
		if e.Family() == q.Family && e.Protocol == q.Protocol && want(e) {
			e.key = raw.key()
			all = append(all, e)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list %s flows of %s: %w", q.Protocol, q.Family, explainError(err))
	}
	return all, nil
}

// maxListTries is how often a list is started because it was interrupted.
const maxListTries = 5

// walk sends a request for a dump and calls fn for each entry, and repeats it until it was not
// interrupted. Begin is called first, and again if the kernel's table was rebuilt meanwhile and the
// walk starts over.
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

// deleteBatch is how many entries are deleted by one message. If none of them still
// exists, so many errors must fit in the socket's buffer.
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
// kernel returns an error for each one that did not, and for the last one in any case.
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
	last, removed := sent[len(sent)-1].Header.Sequence, 0
	for {
		_, err := conn.Receive()
		var answer *netlink.OpError
		switch {
		case err == nil:
			return len(entries) - removed, nil
		case !errors.Is(err, unix.ENOENT) || !errors.As(err, &answer):
			return 0, err
		}
		removed++
		if answer.Sequence == last {
			return len(entries) - removed, nil
		}
	}
}

// IsFull reports whether the kernel's table has so few entries left that new connections may be
// dropped: less than a twentieth.
func (c *Conntrack) IsFull() (bool, error) {
	entries, most, err := c.Usage()
	return most > 0 && uint64(entries)*20 >= uint64(most)*19, err
}

// Usage returns how many entries the kernel's table has, and can have; zeros if the kernel does
// not say.
func (c *Conntrack) Usage() (entries, most uint32, err error) {
	err = c.exchange(request(msgUsage, 0, unix.AF_UNSPEC, nil), msgUsage, func(data []byte) {
		entries, most = decodeUsage(data)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("read the size of connection tracking: %w", explainError(err))
	}
	return entries, most, nil
}

// TCPTimeout returns after how long without a packet the kernel forgets an established connection of
// TCP, in the process's network namespace; zero if it does not say.
func TCPTimeout() time.Duration {
	text, _ := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established")
	seconds, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return time.Duration(seconds) * time.Second
}

func decodeUsage(data []byte) (entries, most uint32) {
	var d attr.Decoder
	for kind, value := range d.Attributes(d.Body(data)) {
		switch kind {
		case ctaStatsEntries:
			entries = d.Uint32(value)
		case ctaStatsMaxEntries:
			most = d.Uint32(value)
		}
	}
	return entries, most
}
