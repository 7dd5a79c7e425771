package kernel

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft"
)

// writer is the one socket through which everything is written, for all that share
// it.
type writer struct {
	config Config
	users  atomic.Int32
	port   uint32 // the socket's, which tables may belong to

	mu          sync.Mutex
	conn        *netlink.Conn
	writeBuffer int    // bytes that the send buffer can take
	answer      []byte // what is read goes here
	commits     uint32 // transactions that the kernel took
}

func newWriter(c Config) (*writer, error) {
	conn, err := dial(c, 0)
	if err != nil {
		return nil, err
	}
	w := &writer{config: c, conn: conn, answer: make([]byte, answerSize)}
	w.users.Add(1)
	for _, o := range []netlink.ConnOption{netlink.ExtendedAcknowledge, netlink.CapAcknowledge} {
		if err := conn.SetOption(o, true); err != nil {
			return nil, errors.Join(fmt.Errorf("ask nf_tables for details of errors: %w", err), conn.Close())
		}
	}
	if w.port, err = portOf(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return w, nil
}

// portOf is the number that netlink knows the socket by.
func portOf(conn *netlink.Conn) (uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("reach the netfilter socket: %w", err)
	}
	var address unix.Sockaddr
	if e := raw.Control(func(fd uintptr) { address, err = unix.Getsockname(int(fd)) }); e != nil || err != nil {
		return 0, fmt.Errorf("ask for the netfilter socket's port: %w", errors.Join(e, err))
	}
	own, ok := address.(*unix.SockaddrNetlink)
	if !ok {
		return 0, fmt.Errorf("the netfilter socket has an address of type %T", address)
	}
	return own.Pid, nil
}

// close closes the socket when its last user has gone.
func (w *writer) close() error {
	if w.users.Add(-1) > 0 {
		return nil
	}
	return w.conn.Close()
}

// Apply gives the batch to the kernel, which takes all of it or nothing; of a large
// one in steps, it may have taken the steps before, as Steps of the result says. An
// error of type *nft.Error says what was refused. After any other error it is not
// known what the kernel holds; read it back.
//
// A batch in steps for which the kernel has no memory is tried again in smaller ones.
func (w *writer) Apply(b nft.Batch) (nft.Applied, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	start, taken := time.Now(), 0
	for limit := nft.StepElements; ; limit /= 4 {
		a, err := w.applySteps(b.Steps(limit))
		a.Took = time.Since(start)
		a.Steps += taken
		taken = a.Steps
		if err == nil || limit < minStepElements || !nft.IsOutOfMemory(err) || len(b.Steps(limit/4)) == 1 {
			return a, permission(err)
		}
	}
}

// minStepElements is how many elements a step has at least that is made smaller still.
const minStepElements = 4_000

func (w *writer) applySteps(steps []nft.Batch) (a nft.Applied, err error) {
	var sentBefore []byte
	for _, step := range steps {
		e, err := step.EncodeOver(sentBefore)
		if err != nil {
			return a, err
		}
		sent := time.Now()
		if err := w.transact(e); err != nil {
			return a, err
		}
		w.commits++
		a.Kernel += time.Since(sent)
		sentBefore = e.Bytes
		a.Steps++
		a.Messages += e.Messages
		a.Bytes += len(e.Bytes)
	}
	return a, nil
}

// check asks the kernel to try the batch in a table of another name and to take
// it back.
func (w *writer) check(b nft.Batch, table string) error {
	e, err := b.EncodeCheck(table)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.transact(e)
}
