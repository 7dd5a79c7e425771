package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
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
