package simulate

import (
	"golang.org/x/sys/unix"

	"kube-vmap/nft/simulate/xt"
)

// matchOther runs the matches of iptables that few programs use.
func (w *walk) matchOther(e any) (bool, error) {
	switch e := e.(type) {
	case xt.Helper:
		return w.matchHelper(e)
	case xt.ConnLabel:
		return w.matchLabel(e), nil
	case xt.PacketType:
		kind, err := w.packetType()
		return kind == e.Type != e.Invert, err
	case xt.Length:
		if shortest := len(w.frame.network.bytes) + len(w.frame.transport.bytes); int(e.From) <= shortest && e.To == 1<<16-1 {
			return !e.Invert, nil
		}
		return false, undecidedError("a match of the length of the packet")
	case xt.CGroup:
		if !w.frame.fromNode {
			return false, nil
		}
		return false, undecidedError("a match of the group of the program that sends the packet")
	}
	return false, nil // xt.Never
}

// matchHelper is helper_mt of net/netfilter/xt_helper.c. A connection that no other one
// announced has no master.
func (w *walk) matchHelper(e xt.Helper) (bool, error) {
	if w.conn.status&statusExpected != 0 {
		return false, undecidedError("a match of the helper of a connection")
	}
	return e.Invert, nil
}

// statusExpected is the status of a connection that another one announced (IPS_EXPECTED).
const statusExpected = 1 << 0

// matchLabel is connlabel_mt of net/netfilter/xt_connlabel.c.
func (w *walk) matchLabel(e xt.ConnLabel) bool {
	at, bit := int(e.Bit/8), byte(1)<<(e.Bit%8)
	if !w.conn.known || at >= len(w.conn.labels) {
		return e.Invert
	}
	has := w.conn.labels[at]&bit != 0 || e.Set
	if e.Set {
		w.conn.labels[at] |= bit
	}
	return has != e.Invert
}

// packetType returns what the link delivers the packet as (PACKET_*).
func (w *walk) packetType() (uint8, error) {
	if w.frame.fromNode {
		return unix.PACKET_HOST, nil
	}
	kind, err := w.addressType(w.packet.To.Addr())
	switch kind {
	case unix.RTN_BROADCAST:
		return unix.PACKET_BROADCAST, err
	case unix.RTN_MULTICAST:
		return unix.PACKET_MULTICAST, err
	}
	return unix.PACKET_HOST, err
}

// matchOwner is owner_mt of net/netfilter/xt_owner.c. A packet that the node sends is taken to
// be one of root.
func (w *walk) matchOwner(e xt.Owner) (bool, error) {
	switch {
	case !w.frame.fromNode:
		return e.Match&^e.Invert == 0, nil
	case e.Match&e.Invert&xt.OwnerSocket != 0:
		return false, nil
	}
	return (e.Match&xt.OwnerUser == 0 || e.HasRoot != (e.Invert&xt.OwnerUser != 0)) &&
		(e.Match&xt.OwnerGroup == 0 || e.HasRootGroup != (e.Invert&xt.OwnerGroup != 0)), nil
}
