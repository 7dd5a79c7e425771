package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// rawSocket is a netlink socket for the floor: it sends bytes that were prepared
// beforehand and discards the answers.
type rawSocket struct {
	fd     int
	answer [64 << 10]byte
}

// openRawSocket opens a socket in the network namespace of the calling thread.
func openRawSocket() (*rawSocket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open a netfilter socket: %w", err)
	}
	return &rawSocket{fd: fd}, nil
}

func (b *rawSocket) close() error { return unix.Close(b.fd) }

// prepare encodes the batch, in one part for each transaction.
func prepare(batch nft.Batch) ([][]byte, error) {
	var parts [][]byte
	for _, step := range batch.Steps(nft.StepElements) {
		e, err := wire.Encode(step)
		if err != nil {
			return nil, err
		}
		parts = append(parts, e.Bytes)
	}
	return parts, nil
}

// send sends one transaction after the other and returns how long that took.
func (b *rawSocket) send(parts ...[]byte) (time.Duration, error) {
	room := 0
	for _, p := range parts {
		room = max(room, len(p))
	}
	if err := unix.SetsockoptInt(b.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, room); err != nil {
		return 0, fmt.Errorf("make room for %d bytes: %w", room, err)
	}
	start := time.Now()
	for _, p := range parts {
		if err := unix.Sendto(b.fd, p, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return 0, fmt.Errorf("send %d prepared bytes: %w", len(p), err)
		}
		if err := b.drain(); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// drain reads the answers on the socket. There are none unless the kernel reports an
// error.
func (b *rawSocket) drain() error {
	var first error
	for {
		n, _, err := unix.Recvfrom(b.fd, b.answer[:], unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return first
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read the answer to prepared bytes: %w", err)
		}
		if n >= unix.SizeofNlMsghdr+4 && first == nil {
			errno := -int32(binary.NativeEndian.Uint32(b.answer[unix.SizeofNlMsghdr:]))
			first = fmt.Errorf("the kernel rejects prepared bytes: %w", syscall.Errno(errno))
		}
	}
}
