package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// Each calls fn for every entry with addresses and ports, of both families, in one walk of the
// kernel's table. Closed connections, which the kernel keeps for some minutes to recognize late
// packets, are skipped; UDP has none. An entry that begins or ends meanwhile may be missing. Begin
// is called first, and again if the kernel's table was rebuilt meanwhile and the walk starts over.
func (c *Conntrack) Each(begin func(), fn func(Entry)) error {
	return c.each(filter{}, begin, func(e Entry) {
		if !e.Closed {
			fn(e)
		}
	})
}

// EachTranslated is [Conntrack.Each] for entries whose destination was translated, closed
// ones included. A kernel that filters by status (since 5.19) sends only those; others send
// everything, and the rest is skipped here.
func (c *Conntrack) EachTranslated(begin func(), fn func(Entry)) error {
	return c.each(filter{status: statusDstNAT, mask: statusDstNAT}, begin, func(e Entry) {
		if e.Reply != e.Original {
			fn(e)
		}
	})
}

// EachReplied is [Conntrack.EachTranslated] for entries with a reply, translated or not.
func (c *Conntrack) EachReplied(begin func(), fn func(Entry)) error {
	return c.each(filter{status: statusSeenReply, mask: statusSeenReply}, begin, func(e Entry) {
		if e.Replied {
			fn(e)
		}
	})
}

// EachUnanswered is [Conntrack.EachTranslated] for entries of a family and protocol without a
// reply. A kernel that filters by protocol (since 5.8) sends no others.
func (c *Conntrack) EachUnanswered(f model.Family, p model.Protocol, begin func(), fn func(Entry)) error {
	return c.eachOf(filter{status: statusDstNAT, mask: statusDstNAT | statusSeenReply, family: f, protocol: p}, begin, fn)
}

// EachAnswered is [Conntrack.EachUnanswered] for entries with a reply of an endpoint, refusals
// included where they have entries.
func (c *Conntrack) EachAnswered(f model.Family, p model.Protocol, begin func(), fn func(Entry)) error {
	const answered = statusDstNAT | statusSeenReply
	return c.eachOf(filter{status: answered, mask: answered, family: f, protocol: p}, begin, fn)
}

// eachOf calls fn for the translated entries of the filter's family and protocol, with or without a reply.
func (c *Conntrack) eachOf(by filter, begin func(), fn func(Entry)) error {
	replied := by.status&statusSeenReply != 0
	return c.each(by, begin, func(e Entry) {
		if e.Family() == by.family && e.Protocol == by.protocol && e.Reply != e.Original && e.Replied == replied {
			fn(e)
		}
	})
}

// Answering returns the destinations of a protocol's entries, translated or not, that have sent
// a reply other than a refusal. Closed connections count for as long as the kernel keeps them.
func (c *Conntrack) Answering(p model.Protocol) (at map[netip.AddrPort]bool, err error) {
	err = c.EachReplied(func() { at = map[netip.AddrPort]bool{} }, func(e Entry) {
		if e.Protocol == p && !e.Aborted {
			at[e.Reply] = true
		}
	})
	return at, err
}

// each calls fn for entries that pass a filter, and for others if the kernel does not filter.
func (c *Conntrack) each(by filter, begin func(), fn func(Entry)) error {
	if err := c.walk(encodeEach(by), begin, func(e Entry, _ rawEntry) { fn(e) }); err != nil {
		return fmt.Errorf("list flows: %w", explainError(err))
	}
	return nil
}

// Flows returns the flows of a client to the address and port that it sends to. The flow of a
// given source port is found by its key; without one the kernel walks its table.
func (c *Conntrack) Flows(p model.Protocol, client, to netip.AddrPort) (flows []Entry, err error) {
	f := model.FamilyOf(to.Addr())
	isFrom := func(e Entry) bool { return e.isFrom(p, client, to) }
	if client.Port() == 0 {
		return c.List(Query{f, p, to.Port()}, isFrom)
	}
	get := request(msgGet, 0, nft.FamilyNumber(f), func(e *attr.Encoder) { encodeTuple(e, ctaTupleOrig, p, client, to) })
	err = c.exchange(get, msgNew, func(data []byte) {
		if e, _, ok := decode(data); ok && isFrom(e) {
			flows = append(flows, e)
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("get a %s flow from %s: %w", p, client, explainError(err))
	}
	return flows, nil
}

// exchange sends a request other than a dump, and calls fn with the replies of a kind. The kernel
// marks some of them as part of a dump, which never ends, so a short one is requested after it.
func (c *Conntrack) exchange(m netlink.Message, kind netlink.HeaderType, fn func(data []byte)) (err error) {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.SendMessages([]netlink.Message{m, shortDump(m.Data[0])}); err != nil {
		return err
	}
	for m, err := range conn.ReceiveIter() {
		if err != nil {
			return err
		}
		if m.Header.Type&0xff == kind {
			fn(m.Data)
		}
	}
	return nil
}

func (e *Entry) isFrom(p model.Protocol, client, to netip.AddrPort) bool {
	return e.Protocol == p && e.Client.Addr() == client.Addr() && e.Original == to &&
		(client.Port() == 0 || client.Port() == e.Client.Port())
}

// A Watch notices new entries of one source port. The kernel reports an entry when its first
// packet has passed all hooks, and by then the destination is translated. Unlike a list, this
// shows connections that were refused: their entries end with the refusal.
type Watch struct{ conn *netlink.Conn }

// eventsPath is a sysctl. If it is zero, the kernel reports no entries.
const eventsPath = "/proc/sys/net/netfilter/nf_conntrack_events"

// watchTimeout limits the wait for the kernel's replies.
const watchTimeout = time.Second

// NewWatch opens a watch in the network namespace of the calling thread.
func NewWatch(f model.Family, port uint16) (*Watch, error) {
	text, err := os.ReadFile(eventsPath)
	if err == nil && strings.TrimSpace(string(text)) == "0" {
		err = errors.New(eventsPath + " is 0")
	}
	if err != nil {
		return nil, fmt.Errorf("watch connection tracking: %w", err)
	}
	conn, err := socket.Open(0)
	if err != nil {
		return nil, err
	}
	if err = attachFilter(conn, f, port); err == nil {
		err = conn.JoinGroup(unix.NFNLGRP_CONNTRACK_NEW)
	}
	if err != nil {
		return nil, fmt.Errorf("watch connection tracking: %w", errors.Join(explainError(err), conn.Close()))
	}
	return &Watch{conn}, nil
}

// Close closes the watch.
func (w *Watch) Close() error { return w.conn.Close() }

// Find returns the reported entry to a destination, if any. The kernel reports while it sends
// the packet, so this does not wait: the reply to a request that is sent now comes after all
// reports.
func (w *Watch) Find(protocol model.Protocol, to netip.AddrPort) (found Entry, ok bool, err error) {
	if err = w.conn.SetReadDeadline(time.Now().Add(watchTimeout)); err != nil {
		return found, false, err
	}
	last := shortDump(nft.FamilyNumber(model.FamilyOf(to.Addr())))
	if _, err = w.conn.Send(last); err != nil {
		return found, false, fmt.Errorf("read new connections: %w", explainError(err))
	}
	for {
		messages, err := w.conn.Receive()
		if err != nil {
			return found, false, fmt.Errorf("read new connections: %w", explainError(err))
		}
		for _, m := range messages {
			if m.Header.Type&0xff != msgNew {
				return found, ok, nil
			}
			if e, _, known := decode(m.Data); known && e.Protocol == protocol && e.Original == to {
				found, ok = e, true
			}
		}
	}
}

// Offsets in a report (net/netfilter/nf_conntrack_netlink.c, ctnetlink_conntrack_event): the
// original tuple follows the headers.
const offsetType = 4

var offsetPort = [...]uint32{model.IPv4: 60, model.IPv6: 84}

// attachFilter makes the kernel send only the reports of one source port, in addition to the
// replies to requests. It then costs nothing on a node with many connections.
func attachFilter(conn *netlink.Conn, f model.Family, port uint16) error {
	report := binary.NativeEndian.AppendUint16(nil, unix.NFNL_SUBSYS_CTNETLINK<<8|msgNew)
	const loadUint16, equal, ret = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		unix.BPF_RET | unix.BPF_K
	program := []unix.SockFilter{
		{Code: loadUint16, K: offsetType},
		{Code: equal, K: uint32(binary.BigEndian.Uint16(report)), Jf: 2},
		{Code: loadUint16, K: offsetPort[f]},
		{Code: equal, K: uint32(port), Jf: 1},
		{Code: ret, K: ^uint32(0)},
		{Code: ret},
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var attached error
	err = raw.Control(func(fd uintptr) {
		attached = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
	return errors.Join(err, attached)
}
