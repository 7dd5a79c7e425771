package kernel

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mdlayher/netlink"

	"kube-vmap/nft"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/wire"
)

// answerSize is the size of the buffer for one reply to a batch.
const answerSize = 64 << 10

// A writer is the socket through which everything is written, shared by several users.
type writer struct {
	config Config
	users  atomic.Int32
	port   uint32 // of the socket, as the kernel names the owner of a table

	mu          sync.Mutex
	conn        *netlink.Conn
	writeBuffer int    // its size in bytes
	answer      []byte // buffer for one reply
	commits     uint32 // number of transactions that the kernel committed
}

func newWriter(c Config) (*writer, error) {
	conn, err := socket.Open(c.NetNS)
	if err != nil {
		return nil, err
	}
	w := &writer{config: c, port: conn.PID(), conn: conn, answer: make([]byte, answerSize)}
	w.users.Add(1)
	for _, o := range []netlink.ConnOption{netlink.ExtendedAcknowledge, netlink.CapAcknowledge} {
		if err := conn.SetOption(o, true); err != nil {
			return nil, errors.Join(fmt.Errorf("enable detailed errors of a netfilter socket: %w", err), conn.Close())
		}
	}
	return w, nil
}

// close closes the socket with its last user.
func (w *writer) close() error {
	if w.users.Add(-1) > 0 {
		return nil
	}
	return w.conn.Close()
}

// Apply commits the batch, all of it or nothing. A large one is committed in steps; with
// an error, Steps of the result is the number of steps that were committed before it. An
// error of type *wire.Error says what was refused. After any other error the state of the
// kernel is unknown and must be read back.
//
// If the kernel has no memory for a batch in steps, Apply retries the rest with smaller steps.
func (w *writer) Apply(b nft.Batch) (a nft.Applied, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	start := time.Now()
	for limit := nft.StepElements; ; limit /= 4 {
		b, err = w.applySteps(b, limit, &a)
		a.Took = time.Since(start)
		if err == nil || limit < minStepElements || !wire.IsOutOfMemory(err) || len(b.Steps(limit/4)) == 1 {
			return a, permission(err)
		}
	}
}

// minStepElements is the number of elements below which a step is not made smaller.
const minStepElements = 4_000

// applySteps commits steps, adds them to a, and returns the rest of the batch.
func (w *writer) applySteps(b nft.Batch, limit int, a *nft.Applied) (rest nft.Batch, err error) {
	var sentBefore []byte
	done, rest, err := b.CommitSteps(limit, func(step nft.Batch) error {
		e, err := wire.EncodeInto(sentBefore, step)
		if err != nil {
			return err
		}
		sent := time.Now()
		if err := w.transact(e); err != nil {
			return err
		}
		w.commits++
		a.Kernel += time.Since(sent)
		sentBefore = e.Bytes
		a.Messages += e.Messages
		a.Bytes += len(e.Bytes)
		return nil
	})
	a.Steps += done
	return rest, err
}

// check has the kernel validate the batch in a table of another name, without committing
// it.
func (w *writer) check(b nft.Batch, table string) error {
	e, err := wire.EncodeCheck(b, table)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.transact(e)
}
