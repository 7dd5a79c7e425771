// Package kernel programs nf_tables: it commits batches, whole or not at all, and reads
// back what the kernel holds in our tables.
//
// A batch leaves as the bytes it was encoded to, in one sendto. When that returns, the
// transaction is over, and the errors are ready to be read. No acknowledgements are
// requested, so an accepted batch of any size has no reply. Reads have a socket of their
// own, because replies to a dump and errors of a batch would mix.
//
// google/nftables is not used here: it encodes a first load several times slower, with
// an allocation or more for each element, and its error does not say which element was
// refused.
package kernel

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/wire"
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

// probeTable is the name of the table used to validate a sample in the kernel. The
// transaction is never committed, so the table never exists.
const probeTable = "kube-vmap-probe"

// Probe has the kernel validate everything that a rule set needs. The error says in one
// line what is missing: permission, nf_tables, or one of its parts.
func (k *Kernel) Probe(c nft.Config) error {
	return explainProbe(k.check(nft.Sample(c), probeTable))
}

// SupportsOwner reports whether the kernel lets a table belong to a socket and keeps it
// when that closes (table flags owner and persist; Linux 6.9, da5141bbe0c2).
func (k *Kernel) SupportsOwner() (bool, error) {
	err := k.check(nft.Batch{nft.AddTable{Protected: true}}, probeTable)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return false, nil
	}
	return err == nil, explainProbe(err)
}

// SupportsLabels reports whether connections can have labels (CONFIG_NF_CONNTRACK_LABELS).
func (k *Kernel) SupportsLabels() (bool, error) {
	return labelsSupported(k.check(nft.SampleLabels(), probeTable))
}

// labelsSupported interprets the reply to a probe of labels (nft_ct_get_init,
// nft_ct_set_init).
func labelsSupported(err error) (bool, error) {
	var refusal *wire.Error
	if errors.As(err, &refusal) && refusal.Expression == "ct" && errors.Is(err, unix.EOPNOTSUPP) {
		return false, nil
	}
	return err == nil, explainProbe(err)
}

// explainProbe interprets the reply to a probe.
func explainProbe(err error) error {
	var refusal *wire.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return permission(err)
	case errors.As(err, &refusal):
		return fmt.Errorf("the kernel lacks %s: %w", refusal.Missing(), refusal.Errno)
	}
	return fmt.Errorf("try nftables: %w", err)
}

// permission adds to an error that is [fs.ErrPermission] how to get permission.
func permission(err error) error { return socket.ExplainPermission(err, "program nftables") }
