package neighbour

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink/nl"
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
	batch := func(kind int) []byte {
		return message(kind, 0, &nl.Nfgenmsg{ResId: nl.Swap16(unix.NFNL_SUBSYS_NFTABLES)})
	}
	return slices.Concat(
		batch(unix.NFNL_MSG_BATCH_BEGIN),
		message(newTable, unix.NLM_F_CREATE, &nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_INET},
			nl.NewRtAttr(unix.NFTA_TABLE_NAME, nl.ZeroTerminated(table))),
		batch(unix.NFNL_MSG_BATCH_END),
	)
}

func message(kind, flags int, parts ...nl.NetlinkRequestData) []byte {
	r := nl.NewNetlinkRequest(kind, flags)
	for _, p := range parts {
		r.AddData(p)
	}
	return r.Serialize()
}
