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
	"errors"
	"fmt"
	"io/fs"
	"runtime"

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
