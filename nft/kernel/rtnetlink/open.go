package rtnetlink

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Open opens a socket for requests. The network namespace is given by its file descriptor;
// zero means that of the calling thread. The caller must close it.
func Open(netNS int) (*netlink.Handle, error) {
	h, err := netlink.NewHandleAt(namespace(netNS), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open an rtnetlink socket: %w", err)
	}
	return h, nil
}

// namespace returns a network namespace as package netlink names it.
func namespace(netNS int) netns.NsHandle {
	if netNS == 0 {
		return netns.None()
	}
	return netns.NsHandle(netNS)
}
