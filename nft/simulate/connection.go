package simulate

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// What connection tracking calls states, as a rule sees them, and status
// (include/uapi/linux/netfilter/nf_conntrack_common.h).
const (
	stateInvalid     = 1 << 0
	stateEstablished = 1 << 1
	stateNew         = 1 << 3
	stateUntracked   = 1 << 6

	statusSeenReply  = 1 << 1
	statusConfirmed  = 1 << 3
	statusSourceNAT  = 1 << 4
	statusDestNAT    = 1 << 5
	statusSourceDone = 1 << 7
	statusDestDone   = 1 << 8
)

// connection is the packet's entry in connection tracking.
type connection struct {
	known     bool // has been looked for, at priority -200
	untracked bool // a rule said that it must not be
	state     uint32
	status    uint32
	mark      uint32
	// What the client sent and asked for, where that goes, and who is seen there.
	client, asked, endpoint, seen netip.AddrPort
}

// rawPriority is where connection tracking hooks in (NF_IP_PRI_CONNTRACK).
const conntrackPriority = -200

// track finds the packet's connection, or makes one.
func (w *way) track() {
	c := &w.conn
	switch {
	case c.known || c.untracked:
		return
	case w.flow != nil:
		*c = connection{
			state: stateNew, status: w.flow.Status | statusSourceDone | statusDestDone, mark: w.flow.Mark,
			client: w.flow.Client, asked: w.flow.Asked, endpoint: w.flow.Endpoint, seen: w.flow.Seen,
		}
		if w.flow.Status&statusSeenReply != 0 {
			c.state = stateEstablished
		}
	default:
		*c = connection{state: stateNew, client: w.frame.source(), asked: w.frame.destination()}
		c.endpoint, c.seen = c.asked, c.client
	}
	c.known = true
}

// translatesSource says which of its two translations a hook is for.
func (h Hook) translatesSource() bool { return h == Input || h == Postrouting }

// done is the status of a connection whose translation at the hook is decided.
func (h Hook) done() uint32 {
	if h.translatesSource() {
		return statusSourceDone
	}
	return statusDestDone
}

// translate decides a translation of the connection (nf_nat_setup_info). What would
// change nothing is none: the status does not tell of it, and packets stay as they
// are.
func (w *way) translate(source bool, to netip.AddrPort) {
	c := &w.conn
	side, bit, done := &c.endpoint, uint32(statusDestNAT), uint32(statusDestDone)
	if source {
		side, bit, done = &c.seen, statusSourceNAT, statusSourceDone
	}
	if *side != to {
		*side = to
		c.status |= bit
	}
	c.status |= done
}

// rewrite does to the packet what was decided (nf_nat_packet).
func (w *way) rewrite(h Hook) {
	switch c := &w.conn; {
	case h.translatesSource() && c.status&statusSourceNAT != 0:
		w.frame.disguise(c.seen)
	case !h.translatesSource() && c.status&statusDestNAT != 0:
		w.frame.send(c.endpoint)
	}
}

// local reports whether an address belongs to the node.
func (w *way) local(a netip.Addr) (bool, error) {
	kind, err := w.addressType(a)
	return kind == unix.RTN_LOCAL, err
}
