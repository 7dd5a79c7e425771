package kernel

import (
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft"
)

// Kernel holds the lasting sockets to nf_tables of one network namespace. It is
// not safe for use by several goroutines.
type Kernel struct {
	write, read *netlink.Conn
	room        int    // bytes that the send buffer of write can take
	answer      []byte // what is read from write goes here
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
	write, err := dial(c, 0)
	if err != nil {
		return nil, err
	}
	read, err := dial(c, dumpPiece)
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	k := &Kernel{write: write, read: read, answer: make([]byte, answerSize)}
	for _, o := range []netlink.ConnOption{netlink.ExtendedAcknowledge, netlink.CapAcknowledge} {
		if err := write.SetOption(o, true); err != nil {
			return nil, errors.Join(fmt.Errorf("ask nf_tables for details of errors: %w", err), k.Close())
		}
	}
	return k, nil
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
	return errors.Join(k.write.Close(), k.read.Close())
}

// Apply gives the batch to the kernel, which takes all of it or nothing; of a
// first load in steps, it may have taken the steps before. An error of type
// *nft.Error says what was refused. After any other error it is not known what
// the kernel holds; read it back.
func (k *Kernel) Apply(b nft.Batch) (nft.Applied, error) {
	var a nft.Applied
	start := time.Now()
	for _, step := range b.Steps(nft.StepElements) {
		e, err := step.Encode()
		if err != nil {
			return a, err
		}
		sent := time.Now()
		if err := k.transact(e); err != nil {
			return a, permission(err)
		}
		a.Kernel += time.Since(sent)
		a.Steps++
		a.Messages += e.Messages
		a.Bytes += len(e.Bytes)
	}
	a.Took = time.Since(start)
	return a, nil
}

// check asks the kernel to try the batch in a table of another name and to take
// it back.
func (k *Kernel) check(b nft.Batch, table string) error {
	e, err := b.EncodeCheck(table)
	if err != nil {
		return err
	}
	return k.transact(e)
}
