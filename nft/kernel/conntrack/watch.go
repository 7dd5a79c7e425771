package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/socket"
)

// A Watch notices new entries of one source port. The kernel reports an entry when its first
// packet has passed all hooks, and by then the destination is translated. Unlike a list, this
// shows connections that were refused: their entries end with the refusal.
type Watch struct{ conn *netlink.Conn }

// eventsPath is a sysctl. If it is zero, the kernel reports no entries.
const eventsPath = "/proc/sys/net/netfilter/nf_conntrack_events"

// watchTimeout limits the wait for the kernel's replies.
const watchTimeout = time.Second

// NewWatch opens a watch in the network namespace of the calling thread.
func NewWatch(f model.Family, port uint16) (*Watch, error) {
	text, err := os.ReadFile(eventsPath)
	if err == nil && strings.TrimSpace(string(text)) == "0" {
		err = errors.New(eventsPath + " is 0")
	}
	if err != nil {
		return nil, fmt.Errorf("watch connection tracking: %w", err)
	}
	conn, err := socket.Open(0)
	if err != nil {
		return nil, err
	}
	if err = attachFilter(conn, f, port); err == nil {
		err = conn.JoinGroup(unix.NFNLGRP_CONNTRACK_NEW)
	}
	if err != nil {
		return nil, fmt.Errorf("watch connection tracking: %w", errors.Join(explainError(err), conn.Close()))
	}
	return &Watch{conn}, nil
}

// Close closes the watch.
func (w *Watch) Close() error { return w.conn.Close() }

// Find returns the reported entry to a destination, if any. The kernel reports while it sends
// the packet, so this does not wait: the reply to a request that is sent now comes after all
// reports.
func (w *Watch) Find(protocol model.Protocol, to netip.AddrPort) (found Entry, ok bool, err error) {
	if err = w.conn.SetReadDeadline(time.Now().Add(watchTimeout)); err != nil {
		return found, false, err
	}
	last := shortDump(nft.FamilyNumber(model.FamilyOf(to.Addr())))
	if _, err = w.conn.Send(last); err != nil {
		return found, false, fmt.Errorf("read new connections: %w", explainError(err))
	}
	for {
		messages, err := w.conn.Receive()
		if err != nil {
			return found, false, fmt.Errorf("read new connections: %w", explainError(err))
		}
		for _, m := range messages {
			if m.Header.Type&0xff != msgNew {
				return found, ok, nil
			}
			if e, _, known := decode(m.Data); known && e.Protocol == protocol && e.Original == to {
				found, ok = e, true
			}
		}
	}
}

// Offsets in a report (net/netfilter/nf_conntrack_netlink.c, ctnetlink_conntrack_event): the
// original tuple follows the headers.
const offsetType = 4

var offsetPort = [...]uint32{model.IPv4: 60, model.IPv6: 84}

// attachFilter makes the kernel send only the reports of one source port, in addition to the
// replies to requests. It then costs nothing on a node with many connections.
func attachFilter(conn *netlink.Conn, f model.Family, port uint16) error {
	report := binary.NativeEndian.AppendUint16(nil, unix.NFNL_SUBSYS_CTNETLINK<<8|msgNew)
	const loadUint16, equal, ret = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		unix.BPF_RET | unix.BPF_K
	program := []unix.SockFilter{
		{Code: loadUint16, K: offsetType},
		{Code: equal, K: uint32(binary.BigEndian.Uint16(report)), Jf: 2},
		{Code: loadUint16, K: offsetPort[f]},
		{Code: equal, K: uint32(port), Jf: 1},
		{Code: ret, K: ^uint32(0)},
		{Code: ret},
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var attached error
	err = raw.Control(func(fd uintptr) {
		attached = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
	return errors.Join(err, attached)
}
