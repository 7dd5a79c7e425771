package simulate

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// deliverToGroup notes who receives a packet to a broadcast or multicast address. Only UDP
// has such packets: the other protocols refuse to connect (tcp_v4_connect,
// tcp_v4_conn_request and sctp_v4_addr_valid, and the same for IPv6).
func (w *walk) deliverToGroup() error {
	to := w.frame.destination().Addr()
	kind, err := w.addressType(to)
	if err != nil {
		return err
	}
	group := map[uint32]string{unix.RTN_BROADCAST: "broadcast", unix.RTN_MULTICAST: "multicast"}[kind]
	switch {
	case group == "":
		return nil
	case w.packet.Protocol != model.UDP:
		w.noteUnreachable(fmt.Errorf("%s is a %s address, which %s does not support", to, group, w.packet.Protocol))
		return errStopped
	}
	receivers := "every listener there receives it"
	if kind == unix.RTN_MULTICAST {
		receivers += " that has joined the group"
	}
	if w.record.hook == HookInput {
		receivers = "it stays on this node: " + receivers
	}
	w.record.how = fmt.Sprintf("%s is a %s address; %s", to, group, receivers)
	return nil
}

// runToEnd runs a walk and notes at its end who receives a packet to a group.
func (w *walk) runToEnd(walk func() error) error {
	err := walk()
	if err == nil {
		err = w.deliverToGroup()
	}
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}
