package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

// addReply walks the way back from the endpoint of a leaf, after the way there. Picks and
// undecided matches on it are of the same walk.
func (w *walk) addReply(l *leaf) error {
	if !path.Arrives(l.verdict) {
		return nil
	}
	from, to := w.frame.destination(), w.frame.source()
	in, mark := w.in, w.frame.mark
	bypasses, err := w.replyBypasses(to.Addr(), l.endpoint.Node)
	var undecided undecidedError
	if err != nil && !errors.As(err, &undecided) {
		return err
	}
	if bypasses {
		l.endpoint.Reply = w.reply(path.VerdictDelivered, from, to)
		l.endpoint.Reply.Bypasses = true
		return nil
	}
	w.turn(from, to, l.endpoint.Node)
	w.record = record{back: true, doubts: l.doubts}
	walk := w.receive
	if l.endpoint.Node {
		walk = w.leave
		if w.packet.Protocol == model.TCP && w.sysctl("net/ipv4/tcp_fwmark_accept") == "1" {
			w.frame.mark = mark
		}
	}
	w.record.verdict = path.VerdictDelivered
	if err == nil {
		err = walk()
	}
	if err = w.noteUnknown(err); err != nil && !errors.Is(err, errStopped) {
		return err
	}
	elsewhere := in != (Link{}) && w.frame.out != (Link{}) && w.frame.out != in
	if elsewhere && w.record.verdict == path.VerdictDelivered && w.frame.source() == w.packet.To && w.nextHop.IsValid() {
		w.addNodeDoubt(fmt.Sprintf("routing: the reply leaves by %s, and the client's packet is taken to come in by %s",
			w.frame.out.Name, in.Name))
	}
	if err := l.addReply(w); err != nil {
		return err
	}
	if l.endpoint.Reply.Verdict == path.VerdictDelivered && !w.flow.isEstablished() {
		return w.addLater(l, from)
	}
	return nil
}

// addLater walks what the client sends after the reply: its rules and the way may be others than
// for the first packet. A reply that is not tracked does not establish the connection.
func (w *walk) addLater(l *leaf, endpoint netip.AddrPort) error {
	if !w.answered.known && w.packet.Protocol == model.UDP {
		return nil // it is one as the first
	}
	flow := w.answered.flow()
	again := *w
	again.flow, again.answered, again.conn, again.rerouted = &flow, nil, connection{}, false
	if !w.conn.reply {
		again.loses = w.packet.Protocol != model.UDP
		flow.Status &^= statusSeenReply
	}
	again.record = record{later: true, doubts: l.doubts}
	if err := again.noteUnknown(again.run()); err != nil {
		return err
	}
	notes, err := again.notes()
	if err != nil {
		return err
	}
	l.doubts, l.probability = again.record.doubts, w.choices.probability()
	l.notes.Faults = union(l.notes.Faults, notes.Faults)
	l.endpoint.Probability = l.probability
	reply, r := &l.endpoint.Reply, again.record
	switch {
	case !path.Arrives(r.verdict):
		reply.Verdict, reply.How, reply.By, reply.Reason, reply.Fault = r.verdict, r.how, r.by, notes.Reason, notes.Fault
	case again.frame.destination() != endpoint:
		reply.Verdict, reply.How = path.VerdictUnreachable, "connection tracking does not translate it"
	default:
		return nil
	}
	reply.Later = true
	return nil
}

func (l *leaf) addReply(w *walk) error {
	r := w.record
	notes, err := w.notes()
	if err != nil {
		return err
	}
	l.notes.Steps, l.notes.Faults = append(l.notes.Steps, notes.Steps...), union(l.notes.Faults, notes.Faults)
	l.doubts = r.doubts
	to := w.frame.destination()
	if to.Port() == assumedPort {
		to = netip.AddrPortFrom(to.Addr(), 0)
	}
	reply := w.reply(r.verdict, w.frame.source(), to)
	reply.How, reply.By, reply.Reason, reply.Fault = r.how, r.by, notes.Reason, notes.Fault
	l.endpoint.Reply = reply
	l.probability = w.choices.probability()
	l.endpoint.Probability = l.probability
	return nil
}

// reply returns a reply to the client of the packet, which accepts it from the address and port that it
// sent the packet to.
func (w *walk) reply(verdict string, from, to netip.AddrPort) path.Reply {
	if verdict == path.VerdictDelivered && (from != w.packet.To || to.Addr() != w.packet.From) {
		verdict = path.VerdictNotAccepted
	}
	return path.Reply{Verdict: verdict, From: from.String(), To: to.String()}
}

// turn makes the reply the packet of the walk. It comes in by the interface by which the
// packet left, or a program of the node sends it. It does not have the mark of the packet.
func (w *walk) turn(from, to netip.AddrPort, fromNode bool) {
	answered := w.conn
	if !answered.known && w.flow != nil {
		answered = w.flow.connection()
	}
	w.answered = &answered
	w.conn = connection{}
	p := Packet{From: from.Addr(), FromPort: from.Port(), To: to, Protocol: w.packet.Protocol}
	reply := frame{
		family: w.frame.family, protocol: w.frame.protocol, in: w.frame.out, fromNode: fromNode,
		network: newNetworkHeader(p), transport: newReplyHeader(p, w.flow.isEstablished()),
	}
	if fromNode {
		reply.in = Link{}
	}
	w.frame = reply
	w.assumePort()
}

// assumedPort is where a reply goes if that is not known: a port as clients and masquerade pick
// it. That a rule means just the picked one, such as the port of a tunnel, is so unlikely that
// it must not make each answer uncertain.
const assumedPort = 41_963

func (w *walk) assumePort() {
	if w.frame.destination().Port() == 0 {
		w.frame.transport.setPort(destinationPort, assumedPort)
	}
}

// trackReply finds the connection of the reply. If the packet was not tracked, the reply
// begins a connection for UDP, and is invalid for the other protocols (tcp_new, sctp_new).
func (w *walk) trackReply() {
	switch {
	case w.answered.known:
		w.conn = *w.answered
		w.conn.reply, w.conn.state = true, stateEstablished
		w.conn.status |= statusConfirmed | statusSeenReply | statusSourceDone | statusDestDone
	case w.packet.Protocol == model.UDP:
		w.conn = newConnection(w.frame.source(), w.frame.destination())
	}
}

// replyBypasses reports whether the endpoint's reply goes to an address by another way than
// this node. It does if neither of them is behind this node: if packets pass between two
// interfaces, a host without a next hop is.
func (w *walk) replyBypasses(to netip.Addr, fromNode bool) (bool, error) {
	if fromNode || w.frame.fromNode || w.conn.status&statusSourceNAT != 0 {
		return false, nil
	}
	if local, err := w.isLocal(to); local || err != nil {
		return false, err
	}
	back, err := w.wayTo(to, w.frame.destination().Addr())
	if errors.Is(err, ErrNoRoute) {
		return false, nil // the walk back ends with the reason
	}
	if w.in == w.frame.out {
		hooked, e := w.isPortHooked()
		err = cmp.Or(err, e)
		return !hooked || back.Via.IsValid() || w.nextHop.IsValid(), err
	}
	return back.Via.IsValid() && w.nextHop.IsValid(), err
}

// translateBack changes an address of a reply to what it was before its translation.
func (w *walk) translateBack(side string, before, after netip.AddrPort, set func(netip.AddrPort)) {
	if set(after); before != after {
		w.reportNode(w.record.hook, path.StepTranslateBack, "connection tracking: "+side+" becomes "+endText(after)+" again")
	}
	w.assumePort()
}

func endText(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}
