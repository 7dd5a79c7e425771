// Package socket is what all readers and writers below nft/kernel share: it opens netlink
// sockets of netfilter, sends requests and reads the replies.
//
//	conn, err := socket.Open(netNS)
//	request := socket.Nftables(unix.NFT_MSG_GETCHAIN, netlink.Dump, family, func(e *attr.Encoder) {
//		e.String(unix.NFTA_CHAIN_TABLE, "nat")
//	})
//	err = socket.Ask(conn, request, func(m netlink.Message) error { ... })
//
// A [Batch] is a transaction of nf_tables of a few messages: the table of the fast path, the
// removal of another program's chains. It is not for our own rule set: package kernel
// sends that as the bytes it was encoded to, without a copy per message.
//
// google/nftables has a batch, too. It is not used because its error does not say which
// object the kernel refused, and because its Conn does not return the port number of its
// socket, which the kernel reports as the owner of a table.
package socket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"runtime"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

const (
	// pieceSize is the size of the pieces that a dump comes in. Larger pieces make the
	// kernel walk a map less often; it makes none larger than 32 or 64 KiB.
	pieceSize = 64 << 10
	// readBuffer holds the replies that are not read yet: the errors of a batch, or the
	// pieces of a dump.
	readBuffer = 1 << 20
)

// Open opens a socket of netfilter. The network namespace is given by its file
// descriptor; zero means the calling thread's.
func Open(netNS int) (*netlink.Conn, error) { return open(unix.NETLINK_NETFILTER, netNS) }

// OpenGeneric opens a socket of generic netlink; see [Open].
func OpenGeneric(netNS int) (*netlink.Conn, error) { return open(unix.NETLINK_GENERIC, netNS) }

// OpenRoute opens a socket of rtnetlink; see [Open].
func OpenRoute(netNS int) (*netlink.Conn, error) { return open(unix.NETLINK_ROUTE, netNS) }

func open(protocol, netNS int) (*netlink.Conn, error) {
	conn, err := netlink.Dial(protocol, &netlink.Config{NetNS: netNS, MessageBufferSize: pieceSize})
	if err != nil {
		return nil, openError(err)
	}
	if err := conn.SetReadBuffer(readBuffer); err != nil {
		return nil, errors.Join(fmt.Errorf("set the buffer size of a netlink socket: %w", err), conn.Close())
	}
	return conn, nil
}

func openError(err error) error {
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return fmt.Errorf("the kernel lacks netfilter's netlink (CONFIG_NETFILTER_NETLINK): %w", err)
	}
	return fmt.Errorf("open a netlink socket: %w", err)
}

// ExplainPermission adds to an error that is [fs.ErrPermission] the missing permission
// and how to get it, as in "no permission to read nftables; run as root ...". Other
// errors are returned unchanged.
func ExplainPermission(err error, action string) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("no permission to %s; run as root or with %s: %w", action, MissingCapability(err), err)
	}
	return err
}

// MissingCapability returns the capability that permits the operation that failed with
// [fs.ErrPermission].
func MissingCapability(err error) string {
	if file := (*fs.PathError)(nil); errors.As(err, &file) {
		return "CAP_DAC_READ_SEARCH"
	}
	return "CAP_NET_ADMIN"
}

// Request returns a request to a subsystem of netfilter (NFNL_SUBSYS_*). The function
// appends its attributes, and may be nil. It panics if one of them is too long for
// netlink, which cannot happen with names or keys that the kernel knows.
func Request(
	subsystem, kind uint16, flags netlink.HeaderFlags, family uint8, attributes func(*attr.Encoder),
) netlink.Message {
	var e attr.Encoder
	e.NetfilterHeader(family, 0)
	if attributes != nil {
		attributes(&e)
	}
	if err := e.Err(); err != nil {
		panic("socket: " + err.Error())
	}
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(subsystem<<8 | kind), Flags: netlink.Request | flags},
		Data:   e.Bytes,
	}
}

// Nftables returns a request to nf_tables; see [Request].
func Nftables(kind uint16, flags netlink.HeaderFlags, family uint8, attributes func(*attr.Encoder)) netlink.Message {
	return Request(unix.NFNL_SUBSYS_NFTABLES, kind, flags, family, attributes)
}

// ErrStop ends [Ask] without an error. The remaining replies stay in the socket, which must be
// closed.
var ErrStop = errors.New("stop")

// Ask sends a request and calls fn with each reply, except for an acknowledgement. If fn
// returns another error than [ErrStop], the remaining replies are read all the same, to keep
// them from the next request.
func Ask(conn *netlink.Conn, request netlink.Message, fn func(netlink.Message) error) error {
	if _, err := conn.Send(request); err != nil {
		return err
	}
	var first error
	for m, err := range conn.ReceiveIter() {
		if err != nil {
			return err
		}
		if m.Header.Type == netlink.Error {
			continue
		}
		err := fn(m)
		if errors.Is(err, ErrStop) {
			return nil
		}
		if first == nil && err != nil {
			first = fmt.Errorf("decode an answer of the kernel: %w", err)
		}
	}
	return first
}

// Generation returns the generation of nf_tables in the network namespace: a number that
// grows with every commit, by any process.
func Generation(conn *netlink.Conn) (id uint32, err error) {
	err = Ask(conn, Nftables(unix.NFT_MSG_GETGEN, 0, unix.AF_UNSPEC, nil), func(m netlink.Message) error {
		var d attr.Decoder
		if b := d.Find(d.Body(m.Data), unix.NFTA_GEN_ID); b != nil {
			id = d.Uint32(b)
		}
		return d.Err()
	})
	if err != nil {
		return 0, fmt.Errorf("read the generation of nf_tables: %w", err)
	}
	return id, nil
}

// In calls a function in a network namespace, given by its file descriptor; zero means the
// calling thread's. Files below /proc and raw sockets are read in it.
func In(netNS int, fn func() error) error {
	if netNS == 0 {
		return fn()
	}
	done := make(chan error)
	go func() { done <- onThread(netNS, fn) }()
	return <-done
}

// onThread calls fn in a network namespace, on a thread that then returns to its own. If it
// cannot, it ends with the goroutine. Threads do not end otherwise, because that would kill
// processes that they have started with PR_SET_PDEATHSIG.
func onThread(netNS int, fn func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		return fmt.Errorf("find the thread's network namespace: %w", err)
	}
	defer func() {
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
		_ = home.Close()
	}()
	if err := netns.Set(netns.NsHandle(netNS)); err != nil {
		return fmt.Errorf("enter a network namespace: %w", err)
	}
	return fn()
}

// A Batch is one transaction of nf_tables: all of it is applied, or nothing.
type Batch struct {
	// Generation, if not zero, is the generation of nf_tables that the batch is based on.
	// If nf_tables was changed since, the kernel refuses the batch with ERESTART.
	Generation uint32
	// Messages are what the batch does, in order.
	Messages []netlink.Message
}

// Add appends a message.
func (b *Batch) Add(kind uint16, flags netlink.HeaderFlags, family uint8, attributes func(*attr.Encoder)) {
	b.Messages = append(b.Messages, Nftables(kind, flags, family, attributes))
}

// Commit sends the batch and waits for the replies. It returns the first error, except
// for messages that tolerate, given the index in Messages, accepts; tolerate may be nil.
// If the kernel refused any message, tolerated or not, nothing was applied. After an
// error the socket may hold more replies and must not be used again.
func (b *Batch) Commit(conn *netlink.Conn, tolerate func(index int, err error) bool) error {
	if len(b.Messages) == 0 {
		return nil
	}
	sent, err := conn.SendMessages(b.withBorders())
	if err != nil {
		return fmt.Errorf("send a batch: %w", err)
	}
	first, last := sent[1].Header.Sequence, sent[len(sent)-2].Header.Sequence
	for {
		answers, err := conn.Receive()
		if err == nil {
			if len(answers) > 0 && answers[len(answers)-1].Header.Sequence == last {
				return nil
			}
			continue
		}
		var refusal *netlink.OpError
		if !errors.As(err, &refusal) || refusal.Sequence == 0 {
			return fmt.Errorf("read the answer to a batch: %w", err)
		}
		if tolerate == nil || !tolerate(int(int32(refusal.Sequence-first)), err) {
			return err
		}
		if refusal.Sequence == last {
			return nil
		}
	}
}

// withBorders returns the messages between those that begin and end a batch. The last one
// is acknowledged, to get a reply in any case.
func (b *Batch) withBorders() []netlink.Message {
	begin := border(unix.NFNL_MSG_BATCH_BEGIN)
	if b.Generation != 0 {
		e := attr.Encoder{Bytes: begin.Data}
		e.Uint32(unix.NFNL_BATCH_GENID, b.Generation)
		begin.Data = e.Bytes
	}
	out := append([]netlink.Message{begin}, b.Messages...)
	out[len(out)-1].Header.Flags |= netlink.Acknowledge
	return append(out, border(unix.NFNL_MSG_BATCH_END))
}

// border returns a message that begins or ends a batch. Its header names the subsystem in
// network byte order.
func border(kind netlink.HeaderType) netlink.Message {
	m := Request(0, 0, 0, unix.AF_UNSPEC, nil)
	m.Header.Type = kind
	binary.BigEndian.PutUint16(m.Data[2:], unix.NFNL_SUBSYS_NFTABLES)
	return m
}

// AddChain appends a chain of type filter at a hook, or one that is only jumped to, if hook is nil.
func (b *Batch) AddChain(family uint8, table, name string, hook *Hook) {
	b.Add(unix.NFT_MSG_NEWCHAIN, netlink.Create, family, func(e *attr.Encoder) {
		e.String(unix.NFTA_CHAIN_TABLE, table)
		e.String(unix.NFTA_CHAIN_NAME, name)
		if hook != nil {
			e.String(unix.NFTA_CHAIN_TYPE, "filter")
			e.Nested(unix.NFTA_CHAIN_HOOK, func() {
				e.Uint32(unix.NFTA_HOOK_HOOKNUM, hook.Number)
				e.Uint32(unix.NFTA_HOOK_PRIORITY, uint32(hook.Priority))
			})
		}
	})
}

// A Hook is where a chain is called (NF_INET_*).
type Hook struct {
	Number   uint32
	Priority int32
}

// AddRule appends a rule at the end of its chain; see [EncodeRule].
func (b *Batch) AddRule(family uint8, table, chain string, list ...expr.Any) {
	b.Add(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, family, func(e *attr.Encoder) {
		EncodeRule(e, family, table, chain, "", list...)
	})
}

// EncodeRule appends the attributes of a rule, with a comment unless that is empty. It panics if an
// expression cannot be encoded.
func EncodeRule(e *attr.Encoder, family uint8, table, chain, comment string, list ...expr.Any) {
	e.String(unix.NFTA_RULE_TABLE, table)
	e.String(unix.NFTA_RULE_CHAIN, chain)
	e.Nested(unix.NFTA_RULE_EXPRESSIONS, func() {
		for _, x := range list {
			b, err := expr.Marshal(family, x)
			if err != nil {
				panic("socket: " + err.Error())
			}
			e.Data(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, b)
		}
	})
	if comment != "" {
		e.Comment(unix.NFTA_RULE_USERDATA, comment)
	}
}

// Compare returns expressions that load something into register 1, and compare its masked part, or
// all of it if the mask is nil.
func Compare(load expr.Any, mask []byte, op expr.CmpOp, data []byte) []expr.Any {
	const r = unix.NFT_REG_1
	out := []expr.Any{load}
	if mask != nil {
		out = append(out, &expr.Bitwise{
			SourceRegister: r, DestRegister: r, Len: uint32(len(mask)), Mask: mask, Xor: make([]byte, len(mask)),
		})
	}
	return append(out, &expr.Cmp{Op: op, Register: r, Data: data})
}
