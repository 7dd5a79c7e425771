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
		w.noteUnreachable(fmt.Errorf("%s is a %s address, where %s is not answered: of Service protocols, only udp goes to many hosts",
			to, group, w.packet.Protocol))
		return errStopped
	}
	const listens = "whoever listens there gets it"
	who := map[uint32]string{unix.RTN_BROADCAST: listens, unix.RTN_MULTICAST: listens + " and has joined the group"}[kind]
	if w.record.hook == HookInput {
		who = "it stays on this node: " + who
	}
	w.record.how = fmt.Sprintf("%s is a %s address; %s", to, group, who)
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
