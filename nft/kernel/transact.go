package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/wire"
)

// transact sends a transaction and reads the errors of the kernel.
func (w *writer) transact(e *wire.Encoded) error {
	if err := w.growWriteBuffer(2 * len(e.Bytes)); err != nil {
		return fmt.Errorf("grow the send buffer for a batch of %d bytes: %w", len(e.Bytes), err)
	}
	raw, err := w.conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("access the netfilter socket: %w", err)
	}
	var sent, refused error
	err = raw.Control(func(fd uintptr) {
		if sent = send(int(fd), e.Bytes); sent == nil {
			refused = readErrors(int(fd), w.answer, e)
		}
	})
	switch {
	case err != nil:
		return fmt.Errorf("access the netfilter socket: %w", err)
	case errors.Is(sent, unix.ENOMEM) || errors.Is(sent, unix.ENOBUFS):
		return &wire.Error{Errno: unix.ENOMEM, Message: fmt.Sprintf("to send %d bytes", len(e.Bytes))}
	case sent != nil:
		return fmt.Errorf("send a batch of %d bytes: %w", len(e.Bytes), sent)
	}
	return refused
}

// growWriteBuffer makes the send buffer at least n bytes large: a transaction is one
// datagram.
func (w *writer) growWriteBuffer(n int) error {
	if n <= w.writeBuffer {
		return nil
	}
	if err := w.conn.SetWriteBuffer(n); err != nil {
		return err
	}
	w.writeBuffer = n
	return nil
}

// send blocks until the kernel has processed the transaction.
func send(fd int, b []byte) error {
	for {
		err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// maxErrors is the number of errors of one transaction that are kept.
const maxErrors = 100

// readErrors reads everything pending on the socket and returns the first error, which
// lists the others: the kernel continues after an error to find more. All of it must be
// read, or it would be taken for the reply to the next transaction. If there were more
// errors than the buffer holds, ENOBUFS is reported before the first of those it does hold.
func readErrors(fd int, buf []byte, e *wire.Encoded) error {
	var first *wire.Error
	var broken error
	for {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN) && first != nil:
			return first
		case errors.Is(err, unix.EAGAIN):
			return broken
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS):
			broken = cmp.Or(broken, fmt.Errorf("read the answer to a batch: %w", err))
			continue
		case err != nil:
			return fmt.Errorf("read the answer to a batch: %w", err)
		}
		list, err := decodeErrors(buf[:n], e)
		broken = cmp.Or(broken, err)
		for _, r := range list {
			if first == nil {
				first = r
			} else if len(first.Others) < maxErrors {
				first.Others = append(first.Others, r)
			}
		}
	}
}

// decodeErrors decodes error messages (struct nlmsgerr, then the attributes of an extended
// acknowledgement; include/uapi/linux/netlink.h).
func decodeErrors(b []byte, e *wire.Encoded) (list []*wire.Error, err error) {
	var d attr.Decoder
	for h, body := range d.Messages(b) {
		if h.Type != unix.NLMSG_ERROR || len(body) < errnoLen {
			continue
		}
		if errno := -int32(d.NativeUint32(body[:errnoLen])); errno != 0 {
			offset, message := decodeExtended(body[errnoLen:], h.Flags)
			list = append(list, e.Explain(h.Sequence, offset, syscall.Errno(errno), message))
		}
	}
	if err := d.Err(); err != nil {
		return list, fmt.Errorf("read the answer to a batch: %w", err)
	}
	return list, nil
}

// errnoLen is the length of the errno that an error message begins with.
const errnoLen = 4

// decodeExtended returns the offset where the kernel found the error, and its text, from
// the bytes after the errno: the header of the refused message, then attributes.
func decodeExtended(b []byte, flags uint16) (offset uint32, message string) {
	if flags&unix.NLM_F_ACK_TLVS == 0 || len(b) < attr.MessageHeaderLen {
		return 0, ""
	}
	var d attr.Decoder
	skip := attr.MessageHeaderLen
	if flags&unix.NLM_F_CAPPED == 0 { // the whole message is repeated
		skip = int(d.NativeUint32(b[:4])+3) &^ 3
	}
	for kind, value := range d.Attributes(b[min(skip, len(b)):]) {
		switch {
		case kind == unix.NLMSGERR_ATTR_OFFS && len(value) == 4:
			offset = d.NativeUint32(value)
		case kind == unix.NLMSGERR_ATTR_MSG:
			message = unix.ByteSliceToString(value)
		}
	}
	return offset, message
}

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
