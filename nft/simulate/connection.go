package simulate

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// States and status bits of connection tracking, as a rule sees them
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

// A connection is the packet's entry in connection tracking.
type connection struct {
	known     bool // it was looked up, at priority -200
	untracked bool // a rule has set notrack
	reply     bool // the packet goes from the endpoint to the client
	state     uint32
	status    uint32
	mark      uint32
	labels    Labels
	// requested is the destination of the original packet, seenSource the source that the
	// endpoint sees.
	client, requested, endpoint, seenSource netip.AddrPort
}

// conntrackPriority is the priority of connection tracking (NF_IP_PRI_CONNTRACK).
const conntrackPriority = -200

// track looks up the packet's connection, or creates one.
func (w *walk) track() {
	c := &w.conn
	switch {
	case c.known || c.untracked:
		return
	case w.flow != nil:
		*c = connection{
			state: stateNew, status: w.flow.Status | statusSourceDone | statusDestDone, mark: w.flow.Mark, labels: w.flow.Labels,
			client: w.flow.Client, requested: w.flow.Requested, endpoint: w.flow.Endpoint, seenSource: w.flow.SeenSource,
		}
		if w.flow.Status&statusSeenReply != 0 {
			c.state = stateEstablished
		}
	default:
		*c = connection{state: stateNew, client: w.frame.source(), requested: w.frame.destination()}
		c.endpoint, c.seenSource = c.requested, c.client
	}
	c.known = true
}

// isSourceNAT reports whether the hook translates sources; the others translate
// destinations.
func (h Hook) isSourceNAT() bool { return h == HookInput || h == HookPostrouting }

// natDone returns the status bit of connections for which the translation of the hook is
// decided.
func (h Hook) natDone() uint32 {
	if h.isSourceNAT() {
		return statusSourceDone
	}
	return statusDestDone
}

// setTranslation decides a translation of the connection (nf_nat_setup_info). A translation
// to the same address and port is none: it does not set the status, and packets are not
// changed.
func (w *walk) setTranslation(source bool, to netip.AddrPort) {
	c := &w.conn
	side, bit, done := &c.endpoint, uint32(statusDestNAT), uint32(statusDestDone)
	if source {
		side, bit, done = &c.seenSource, statusSourceNAT, statusSourceDone
	}
	if *side != to {
		*side = to
		c.status |= bit
	}
	c.status |= done
}

// applyTranslation applies the decided translation to the packet (nf_nat_packet).
func (w *walk) applyTranslation(h Hook) {
	switch c := &w.conn; {
	case h.isSourceNAT() && c.status&statusSourceNAT != 0:
		w.frame.setSource(c.seenSource)
	case !h.isSourceNAT() && c.status&statusDestNAT != 0:
		w.frame.setDestination(c.endpoint)
	}
}

// isLocal reports whether an address belongs to the node.
func (w *walk) isLocal(a netip.Addr) (bool, error) {
	kind, err := w.addressType(a)
	return kind == unix.RTN_LOCAL, err
}
