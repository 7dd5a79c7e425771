package simulate

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"

	"kube-vmap/nft/foreign/simulate/path"
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
	statusOffloaded  = 1 << 14
)

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

func newConnection(from, to netip.AddrPort) connection {
	return connection{known: true, state: stateNew, client: from, requested: to, endpoint: to, seenSource: from}
}

func (f *Flow) connection() connection {
	c := connection{
		known: true, state: stateNew, status: f.Status | statusSourceDone | statusDestDone, mark: f.Mark, labels: f.Labels,
		client: f.Client, requested: f.Requested, endpoint: f.Endpoint, seenSource: f.SeenSource,
	}
	if f.isEstablished() {
		c.state = stateEstablished
	}
	return c
}

// flow returns the connection as one that its reply has established.
func (c *connection) flow() Flow {
	return Flow{
		Client: c.client, Requested: c.requested, Endpoint: c.endpoint, SeenSource: c.seenSource,
		Status: c.status | statusConfirmed | statusSeenReply, Mark: c.mark, Labels: c.labels,
	}
}

// isEstablished reports whether the endpoint has answered; f may be nil.
func (f *Flow) isEstablished() bool { return f != nil && f.Status&statusSeenReply != 0 }

// IsOffloaded reports whether packets of the flow take a flowtable, instead of rules; f may be
// nil.
func (f *Flow) IsOffloaded() bool { return f != nil && f.Status&statusOffloaded != 0 }

func (w *walk) track() {
	switch {
	case w.conn.known || w.conn.untracked:
	case w.answered != nil:
		w.trackReply()
	case w.loses: // it is invalid
	case w.flow != nil:
		w.conn = w.flow.connection()
	default:
		w.conn = newConnection(w.frame.source(), w.frame.destination())
	}
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

// applyTranslation applies the decided translation to the packet (nf_nat_packet). A
// reply is translated the other way round.
func (w *walk) applyTranslation(h Hook) {
	switch c := &w.conn; {
	case c.reply && h.isSourceNAT() && c.status&statusDestNAT != 0:
		w.translateBack("the source", w.frame.source(), c.requested, w.frame.setSource)
	case c.reply && !h.isSourceNAT() && c.status&statusSourceNAT != 0:
		w.translateBack("the destination", w.frame.destination(), c.client, w.frame.setDestination)
	case c.reply:
	case h.isSourceNAT() && c.status&statusSourceNAT != 0:
		w.frame.setSource(c.seenSource)
	case !h.isSourceNAT() && c.status&statusDestNAT != 0:
		w.frame.setDestination(c.endpoint)
	}
}

func (r *Result) setLeft() {
	fresh, unexplored := r.Outcomes, r.Unexplored
	if r.Flow != nil {
		fresh, unexplored = r.IfNew, r.IfNewUnexplored
	}
	if unexplored != (path.Unexplored{}) || r.Affinity != nil || len(fresh) == 0 {
		return // whether another one would go there is not known
	}
	if r.Flow != nil {
		r.Flow.Left = r.Flow.left(fresh)
	}
	for i := range r.Flows {
		r.Flows[i].Left = r.Flows[i].left(fresh)
	}
}

// left reports whether no new connection would go to the endpoint, by all outcomes of one. A
// filter that stops new connections to any endpoint does not count.
func (f Flow) left(fresh []path.Outcome) bool {
	serves := fresh[0].NoEndpoint
	for _, o := range fresh {
		if slices.Contains(o.Stopped, f.Endpoint) || slices.ContainsFunc(o.Endpoints,
			func(e path.Endpoint) bool { return e.AddrPort() == f.Endpoint }) {
			return false
		}
		serves = serves || o.Arrives() || o.Verdict == path.VerdictUnknown
	}
	return serves && !f.Reopens
}

func (w *walk) ct(e *expr.Ct) (verdict, error) {
	c := &w.conn
	if e.SourceRegister {
		return w.setCt(e)
	}
	if e.Key == expr.CtKeySTATE {
		state := uint32(stateInvalid)
		switch {
		case c.untracked:
			state = stateUntracked
		case c.known:
			state = c.state
		}
		return verdictContinue, w.regs.load(e.Register, known(nativeBytes(state)))
	}
	if !c.known {
		return verdictBreak, nil
	}
	if e.Key == expr.CtKeyHELPER && c.status&statusExpected == 0 {
		return verdictBreak, nil // the connection that announced this one has it
	}
	return verdictContinue, w.regs.load(e.Register, w.ctValue(e))
}

func (w *walk) setCt(e *expr.Ct) (verdict, error) {
	switch e.Key {
	case expr.CtKeyMARK:
		b, err := w.regs.readKnown(e.Register, 4, "an unknown mark")
		if err != nil {
			return verdictBreak, err
		}
		w.conn.mark = binary.NativeEndian.Uint32(b)
	case expr.CtKeyLABELS: // bits are added
		labels, err := w.regs.readKnown(e.Register, len(w.conn.labels), "an unknown label")
		if err != nil {
			return verdictBreak, err
		}
		for i, b := range labels {
			w.conn.labels[i] |= b
		}
	case expr.CtKeyZONE:
		return verdictBreak, undecidedError("a zone of connection tracking is set")
	}
	return verdictContinue, nil
}

func (w *walk) ctValue(e *expr.Ct) value {
	c := &w.conn
	source, destination := c.client, c.requested
	if e.Direction == expr.CtDirReply {
		source, destination = c.endpoint, c.seenSource
	}
	switch e.Key {
	case expr.CtKeySTATUS:
		return known(nativeBytes(c.status))
	case expr.CtKeyMARK:
		return known(nativeBytes(c.mark))
	case expr.CtKeyLABELS:
		return known(slices.Clone(c.labels[:]))
	case expr.CtKeyDIRECTION:
		if c.reply {
			return known([]byte{expr.CtDirReply})
		}
		return known([]byte{expr.CtDirOriginal})
	case expr.CtKeyL3PROTOCOL:
		return known([]byte{familyNumbers[w.frame.family]})
	case expr.CtKeyPROTOCOL:
		return known([]byte{byte(w.frame.protocol)})
	case expr.CtKeySRC, expr.CtKeySRCIP, expr.CtKeySRCIP6:
		return known(source.Addr().AsSlice())
	case expr.CtKeyDST, expr.CtKeyDSTIP, expr.CtKeyDSTIP6:
		return known(destination.Addr().AsSlice())
	case expr.CtKeyPROTOSRC:
		return portValue(source)
	case expr.CtKeyPROTODST:
		return portValue(destination)
	}
	return unknownValue(16)
}

// portValue returns a port; zero is an unknown one.
func portValue(a netip.AddrPort) value {
	if a.Port() == 0 {
		return unknownValue(2)
	}
	return known(binary.BigEndian.AppendUint16(nil, a.Port()))
}
