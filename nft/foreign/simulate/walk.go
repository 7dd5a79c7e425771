package simulate

import (
	"errors"
	"net/netip"

	"kube-vmap/nft"
)

const tableName = nft.TableName

// A walk is one path of a packet through the hooks.
type walk struct {
	*sourceCache
	*choices
	packet Packet
	in     Link  // by which the packet comes in; none if the node sends it
	flow   *Flow // that the packet belongs to, or nil
	frame  frame
	conn   connection
	// answered is nil on the way there. The packet of the way back is the reply of this
	// connection.
	answered *connection

	regs          registers
	position      position
	reason        reason
	addedElements map[elementKey]*Element // nil for one that was deleted
	changedIPSets bool
	nextHop       netip.Addr
	record        record
}

// errStopped is the error when the packet goes no further; the record has the reason.
var errStopped = errors.New("stopped")

func (w *walk) run() error {
	if w.addedElements == nil {
		w.addedElements = map[elementKey]*Element{}
	}
	w.frame = frame{
		family: w.packet.Family(), protocol: w.packet.Protocol, in: w.in, fromNode: w.in == Link{},
		network: newNetworkHeader(w.packet), transport: newTransportHeader(w.packet, w.flow.isEstablished()),
	}
	walk := w.receive
	if w.frame.fromNode {
		walk = w.leave
	}
	if err := walk(); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

func (w *walk) receive() error {
	if err := w.passHooks(HookIngress); err != nil {
		return err
	}
	if w.flow.IsOffloaded() {
		return w.passFlowtable()
	}
	if err := w.passHooks(HookPrerouting); err != nil {
		return err
	}
	r, err := w.findRoute()
	if err != nil {
		return err
	}
	if r.Local {
		return w.passHooks(HookInput)
	}
	w.frame.out = r.Out
	return w.passHooks(HookForward, HookPostrouting, HookEgress)
}

// flowtablePriority is the priority at the ingress hook at which a flowtable takes packets;
// chains of the same one are taken to follow.
const flowtablePriority = 0

// passFlowtable is the path of a packet whose connection is in a flowtable: it is translated
// and sent on, past all other hooks (nf_flow_offload_ip_hook).
func (w *walk) passFlowtable() error {
	w.track()
	source, destination := w.flow.SeenSource, w.flow.Endpoint
	if w.conn.reply {
		source, destination = w.flow.Requested, w.flow.Client
	}
	w.frame.setSource(source)
	w.frame.setDestination(destination)
	w.noteNode(StepFlowtable,
		"flowtable: sent on to "+destination.String()+", past all other rules")
	r, err := w.findRoute()
	if w.frame.out = r.Out; err != nil {
		return err
	}
	return w.passHooks(HookEgress)
}

// leave is the path of a packet of the node itself through its hooks.
func (w *walk) leave() error {
	r, err := w.findRoute()
	if err != nil {
		return err
	}
	w.frame.out = r.Out
	to, mark := w.frame.destination(), w.frame.mark
	if err := w.passHooks(HookOutput); err != nil {
		return err
	}
	if w.frame.destination() != to || w.frame.mark != mark {
		if r, err = w.findRoute(); err != nil {
			return err
		}
		w.frame.out = r.Out
	}
	if err := w.passHooks(HookPostrouting, HookEgress); err != nil || !r.Local {
		return err
	}
	// The loopback returns the packet, with the same connection.
	w.frame.in, w.frame.out, w.frame.fromNode = w.frame.out, Link{}, false
	return w.passHooks(HookIngress, HookPrerouting, HookInput)
}

func (w *walk) findRoute() (Route, error) {
	query := RouteQuery{
		To: w.frame.destination().Addr(), From: w.frame.source().Addr(), In: w.frame.in,
		Mark: w.frame.mark,
	}
	r, err := w.route(query)
	if errors.Is(err, ErrNoRoute) {
		w.noteUnreachable(err)
		return r, errStopped
	}
	if err != nil {
		return r, err
	}
	w.nextHop = r.Via
	return r, nil
}

func (w *walk) via(a netip.Addr) netip.Addr {
	if w.nextHop.IsValid() {
		return w.nextHop
	}
	return a
}

func (w *walk) passHooks(hooks ...Hook) error {
	for _, h := range hooks {
		if err := w.passHook(h); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) passHook(h Hook) error {
	w.record.hook = h
	natted := !h.translates()
	for _, b := range w.baseChains[h] {
		if !b.appliesTo(&w.frame) || h == HookIngress && w.flow.IsOffloaded() && b.Priority >= flowtablePriority {
			continue
		}
		if b.hookPriority() >= conntrackPriority && h != HookIngress {
			w.track()
		}
		if !natted && b.Type != natType && b.Priority > h.natPriority() {
			w.finishNAT(h)
			natted = true
		}
		if b.Type == natType && (!w.conn.known || w.conn.status&h.natDone() != 0) {
			continue // nat chains see a connection once
		}
		if accepted, err := w.runBaseChain(b); err != nil {
			return err
		} else if !accepted {
			return errStopped
		}
	}
	if h != HookIngress {
		w.track()
	}
	if !natted {
		w.finishNAT(h)
	}
	return nil
}

// finishNAT completes nat at a hook: what no chain decided stays as it is, and the decided
// translation is applied to the packet.
func (w *walk) finishNAT(h Hook) {
	if w.conn.known {
		w.conn.status |= h.natDone()
		w.applyTranslation(h)
	}
}
