package kernel

import (
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Kernel holds the lasting sockets to nf_tables of one network namespace. It is
// not safe for use by several goroutines; what [Kernel.Share] gives is another
// one for another goroutine.
type Kernel struct {
	*writer
	read     *netlink.Conn
	readHash maphash.Hash // of the last reading, to know it again
}

// Config says where to find nf_tables.
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the
	// calling thread.
	NetNS int
}

// readBuffer holds the answers that wait to be read: the errors of a batch, and
// the pieces of a dump.
const (
	readBuffer = 1 << 20
	dumpPiece  = 64 << 10 // larger pieces make the kernel walk a map less often
	answerSize = 64 << 10 // of one answer to a batch
)

// Open makes the sockets. It needs no privilege by itself; [Kernel.Probe] says
// whether the kernel will do what is asked of it.
func Open(c Config) (*Kernel, error) {
	w, err := newWriter(c)
	if err != nil {
		return nil, err
	}
	read, err := dial(c, dumpPiece)
	if err != nil {
		return nil, errors.Join(err, w.conn.Close())
	}
	return &Kernel{writer: w, read: read}, nil
}

// Share opens a Kernel for another goroutine: with a socket of its own to read
// from, and the same one to write to, in turns, since tables may belong to that
// socket. Close it before this one.
func (k *Kernel) Share() (*Kernel, error) {
	read, err := dial(k.config, dumpPiece)
	if err != nil {
		return nil, err
	}
	k.users.Add(1)
	return &Kernel{writer: k.writer, read: read}, nil
}

func dial(c Config, piece int) (*netlink.Conn, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: c.NetNS, MessageBufferSize: piece})
	if err != nil {
		return nil, missingSocket(err)
	}
	if err := conn.SetReadBuffer(readBuffer); err != nil {
		return nil, errors.Join(fmt.Errorf("set the size of a netfilter socket's buffer: %w", err), conn.Close())
	}
	return conn, nil
}

// Close gives the sockets back; what was programmed stays.
func (k *Kernel) Close() error {
	return errors.Join(k.read.Close(), k.writer.close())
}
