package neighbour

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
)

// table is the name of the neighbour's table, in the family inet.
const table = "neighbour"

// socket is a netfilter socket in a network namespace.
type socket int

func open(h *lab.Host) (s socket, err error) {
	err = h.Do(func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		s = socket(fd)
		return err
	})
	if err != nil {
		return s, fmt.Errorf("open a netfilter socket on %s: %w", h, err)
	}
	return s, nil
}

func (s socket) close() error { return unix.Close(int(s)) }

// send sends a transaction. The kernel has processed it when send returns.
func (s socket) send(batch []byte) error {
	err := unix.Sendto(int(s), batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("add a table: %w", err)
	}
	return s.refusal()
}

// refusal returns the kernel's error messages on the socket; there are none after
// success.
func (s socket) refusal() error {
	b := make([]byte, 4096)
	for {
		size, _, err := unix.Recvfrom(int(s), b, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read the answer to a batch: %w", err)
		case size >= unix.SizeofNlMsghdr+4:
			errno := -int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:]))
			return fmt.Errorf("the kernel refused a table: %w", syscall.Errno(errno))
		}
	}
}

// addTable returns a batch that adds the table, or changes nothing if it exists.
func addTable() []byte {
	const newTable = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWTABLE
	name := append([]byte(table), 0)
	attribute := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofNlAttr+len(name)))
	attribute = binary.NativeEndian.AppendUint16(attribute, unix.NFTA_TABLE_NAME)
	attribute = append(attribute, name...)
	for len(attribute)%unix.NLMSG_ALIGNTO != 0 {
		attribute = append(attribute, 0)
	}
	batch := message(nil, unix.NFNL_MSG_BATCH_BEGIN, 0, unix.NFPROTO_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	batch = message(batch, newTable, unix.NLM_F_CREATE, unix.NFPROTO_INET, 0, attribute)
	return message(batch, unix.NFNL_MSG_BATCH_END, 0, unix.NFPROTO_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
}

// message appends an nfnetlink message.
func message(b []byte, kind, flags uint16, family byte, resource uint16, attributes []byte) []byte {
	const header = unix.SizeofNlMsghdr + 4
	b = binary.NativeEndian.AppendUint32(b, uint32(header+len(attributes)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|flags)
	b = append(b, make([]byte, 8)...) // sequence and port
	b = append(b, family, unix.NFNETLINK_V0)
	b = binary.BigEndian.AppendUint16(b, resource)
	return append(b, attributes...)
}
