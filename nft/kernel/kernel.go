package kernel

import (
	"errors"
	"hash/maphash"

	"github.com/mdlayher/netlink"

	"kube-vmap/nft/kernel/socket"
)

// A Kernel holds the sockets to nf_tables of one network namespace. It is not safe for
// concurrent use; [Kernel.Share] returns one for another goroutine.
type Kernel struct {
	*writer
	read     *netlink.Conn
	readHash maphash.Hash // of the replies to the last read, to recognize the same ones
}

// Config is the configuration of a [Kernel].
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means the calling thread's.
	NetNS int
}

// Open opens the sockets. That needs no privilege; [Kernel.Probe] reports whether the
// kernel will accept a rule set.
func Open(c Config) (*Kernel, error) {
	w, err := newWriter(c)
	if err != nil {
		return nil, err
	}
	read, err := socket.Open(c.NetNS)
	if err != nil {
		return nil, errors.Join(err, w.conn.Close())
	}
	return &Kernel{writer: w, read: read}, nil
}

// Share returns a Kernel for another goroutine. It reads from a socket of its own and
// shares the socket for writing, one writer at a time, because tables may belong to that
// socket.
func (k *Kernel) Share() (*Kernel, error) {
	read, err := socket.Open(k.config.NetNS)
	if err != nil {
		return nil, err
	}
	k.users.Add(1)
	return &Kernel{writer: k.writer, read: read}, nil
}

// Close closes the sockets; tables stay as they are. The socket for writing is closed
// with the last Kernel that shares it.
func (k *Kernel) Close() error {
	return errors.Join(k.read.Close(), k.writer.close())
}
