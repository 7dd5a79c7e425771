package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
)

// transact sends the bytes and reads what the kernel had to object.
func (w *writer) transact(e *nft.Encoded) error {
	if err := w.growWriteBuffer(2 * len(e.Bytes)); err != nil {
		return fmt.Errorf("make room for a batch of %d bytes: %w", len(e.Bytes), err)
	}
	raw, err := w.conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("reach the netfilter socket: %w", err)
	}
	var sent, refused error
	err = raw.Control(func(fd uintptr) {
		if sent = send(int(fd), e.Bytes); sent == nil {
			refused = readErrors(int(fd), w.answer, e)
		}
	})
	switch {
	case err != nil:
		return fmt.Errorf("reach the netfilter socket: %w", err)
	case errors.Is(sent, unix.ENOMEM) || errors.Is(sent, unix.ENOBUFS):
		return &nft.Error{Errno: unix.ENOMEM, Message: fmt.Sprintf("to send %d bytes", len(e.Bytes))}
	case sent != nil:
		return fmt.Errorf("send a batch of %d bytes: %w", len(e.Bytes), sent)
	}
	return refused
}

// growWriteBuffer lets the send buffer take n bytes: a transaction is one datagram.
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

// send blocks until the kernel has worked through the transaction.
func send(fd int, b []byte) error {
	for {
		err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// maxErrors is how many refusals of one transaction are listed.
const maxErrors = 100

// readErrors reads all that waits on the socket and returns the first error, with the
// others: the kernel goes on after an error to find more. All must be read, lest
// it be taken for the answer to the next transaction; that there were more than the
// buffer holds is told before the first of those it does hold.
func readErrors(fd int, buf []byte, e *nft.Encoded) error {
	var first *nft.Error
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
		refusals, err := decodeErrors(buf[:n], e)
		broken = cmp.Or(broken, err)
		for _, r := range refusals {
			if first == nil {
				first = r
			} else if len(first.Others) < maxErrors {
				first.Others = append(first.Others, r)
			}
		}
	}
}

// headerLen is the length of a netlink header.
const headerLen = unix.SizeofNlMsghdr

// decodeErrors reads error messages (struct nlmsgerr, then the attributes of an
// extended acknowledgement; include/uapi/linux/netlink.h).
func decodeErrors(b []byte, e *nft.Encoded) (list []*nft.Error, err error) {
	for len(b) >= headerLen {
		length := int(binary.NativeEndian.Uint32(b))
		kind := binary.NativeEndian.Uint16(b[4:])
		flags := binary.NativeEndian.Uint16(b[6:])
		if length < headerLen || length > len(b) {
			return list, fmt.Errorf("read the answer to a batch: %w", unix.EBADMSG)
		}
		body := b[headerLen:length]
		if kind == unix.NLMSG_ERROR && len(body) >= 4 {
			if errno := -int32(binary.NativeEndian.Uint32(body)); errno != 0 {
				sequence := binary.NativeEndian.Uint32(b[8:])
				offset, message := decodeExtended(body[4:], flags)
				list = append(list, e.Explain(sequence, offset, syscall.Errno(errno), message))
			}
		}
		b = b[min((length+3)&^3, len(b)):]
	}
	return list, nil
}

// decodeExtended reads where the kernel saw the fault and what it says about it, from
// what follows the errno: the refused message's header, then attributes.
func decodeExtended(b []byte, flags uint16) (offset uint32, message string) {
	if flags&unix.NLM_F_ACK_TLVS == 0 || len(b) < headerLen {
		return 0, ""
	}
	skip := headerLen
	if flags&unix.NLM_F_CAPPED == 0 { // the whole message is repeated
		skip = int(binary.NativeEndian.Uint32(b)+3) &^ 3
	}
	for b = b[min(skip, len(b)):]; len(b) >= unix.SizeofNlAttr; {
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.SizeofNlAttr || length > len(b) {
			break
		}
		value := b[unix.SizeofNlAttr:length]
		switch binary.NativeEndian.Uint16(b[2:]) {
		case unix.NLMSGERR_ATTR_OFFS:
			if len(value) == 4 {
				offset = binary.NativeEndian.Uint32(value)
			}
		case unix.NLMSGERR_ATTR_MSG:
			message = unix.ByteSliceToString(value)
		}
		b = b[min((length+3)&^3, len(b)):]
	}
	return offset, message
}
