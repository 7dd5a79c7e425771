package bench

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/wire"
)

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// sandbox is an empty network namespace, and two ways to program it: package kernel, and a raw
// socket for the floor. close leaves it; the kernel then removes it with its rules.
type sandbox struct {
	host   *lab.Host
	kernel *kernel.Kernel
	raw    int
	close  func()
}

func newSandbox(b *testing.B) *sandbox {
	b.Helper()
	host, leave, err := lab.Alone()
	must(b, err)
	s := &sandbox{host: host}
	s.kernel = s.open(b)
	must(b, host.Do(func() (err error) {
		s.raw, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		return err
	}))
	s.close = func() { must(b, errors.Join(s.kernel.Close(), unix.Close(s.raw), leave())) }
	return s
}

// open opens nf_tables once more, as another process would.
func (s *sandbox) open(b *testing.B) *kernel.Kernel {
	b.Helper()
	k, err := kernel.Open(kernel.Config{NetNS: s.host.FD()})
	must(b, err)
	return k
}

// prepare encodes the batch, in one part for each transaction.
func prepare(b *testing.B, batch nft.Batch) (parts [][]byte) {
	b.Helper()
	for _, step := range batch.Steps(nft.StepElements) {
		e, err := wire.Encode(step)
		must(b, err)
		parts = append(parts, e.Bytes)
	}
	return parts
}

// send sends one prepared transaction after the other and returns how long that took.
func (s *sandbox) send(b *testing.B, parts ...[]byte) time.Duration {
	b.Helper()
	room := 0
	for _, p := range parts {
		room = max(room, len(p))
	}
	must(b, unix.SetsockoptInt(s.raw, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, room))
	start := time.Now()
	for _, p := range parts {
		must(b, unix.Sendto(s.raw, p, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
		must(b, s.refusal())
	}
	return time.Since(start)
}

// refusal returns the kernel's answer to prepared bytes, which only an error has.
func (s *sandbox) refusal() error {
	answer := make([]byte, 4096)
	switch n, _, err := unix.Recvfrom(s.raw, answer, unix.MSG_DONTWAIT); {
	case errors.Is(err, unix.EAGAIN):
		return nil
	case err != nil || n < unix.SizeofNlMsghdr+4:
		return errors.Join(errors.New("no answer to prepared bytes can be read"), err)
	}
	return syscall.Errno(-int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])))
}

// node is a sandbox with the rules of a cluster.
type node struct {
	*cluster
	*sandbox
	rules *nft.Ruleset
}

// newNode programs a cluster, and returns the batch, too. The node is closed with the benchmark.
func newNode(b *testing.B, c *cluster) (*node, nft.Batch) {
	b.Helper()
	rules, batch := nft.Adopt(config, nft.Tables{}, c.all())
	n := &node{c, newSandbox(b), rules}
	b.Cleanup(n.close)
	_, err := n.kernel.Apply(batch)
	must(b, err)
	return n, batch
}

type step struct {
	nft.Applied
	batch nft.Batch
	took  time.Duration // from the changed objects to the commit
}

// follow makes a change to the cluster, and then to the rules.
func (n *node) follow(b *testing.B, change func()) (s step) {
	b.Helper()
	start := time.Now()
	change()
	p := n.rules.Plan(n.changes())
	applied, err := n.kernel.Apply(p.Batch)
	s = step{applied, p.Batch, time.Since(start)}
	must(b, err)
	n.rules.Commit(p)
	return s
}
