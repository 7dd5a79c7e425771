package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"kube-vmap/nft/foreign/simulate/path"
)

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
	// loses is true if connection tracking does not find the connection of the packet.
	loses bool

	regs          registers
	position      position
	reason        reason
	addedElements map[elementKey]*Element // nil for one that was deleted
	changedIPSets bool
	nextHop       netip.Addr
	rerouted      bool // a packet of the node is routed a second time
	record        record
}

// errStopped is the error when the packet goes no further; the record has the reason.
var errStopped = errors.New("stopped")

func (w *walk) run() error {
	w.record.verdict = path.VerdictNotService
	if w.addedElements == nil {
		w.addedElements = map[elementKey]*Element{}
	}
	w.frame = frame{
		family: w.packet.Family(), protocol: w.packet.Protocol, in: w.in, fromNode: w.in == Link{},
		network:   newNetworkHeader(w.packet),
		transport: newTransportHeader(w.packet, w.record.later || w.flow.isEstablished()),
	}
	switch n := len(w.ingress); {
	case n < 2 || w.record.later:
	case w.unknownIngress:
		w.in = w.ingress[w.assumeOneOf(n, Doubt{
			Why: "routing: there is no route to the client, so by which interface the packet comes in is not known",
		})]
	default:
		w.in = w.ingress[w.choose(uint32(n), false)]
	}
	w.frame.in = w.in
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
	early, err := w.isPortHooked()
	if err != nil {
		return err
	}
	if err := w.passPorts(HookIngress, &w.frame.in); err != nil {
		return err
	}
	if !early {
		if bridged, err := w.isBridged(); bridged || err != nil {
			return err
		}
		if err := w.passHooks(HookIngress); err != nil {
			return err
		}
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
	bridged := early && r.Out == w.frame.in && !r.Via.IsValid()
	if early && !bridged {
		if err := w.passHooks(HookIngress); err != nil {
			return err
		}
	}
	if !r.Local {
		w.frame.out = r.Out
	}
	if err := cmp.Or(w.checkHeader(r.Local, bridged), w.checkLinks(bridged)); err != nil {
		return err
	}
	if r.Local {
		return w.passHooks(HookInput)
	}
	if err := w.passHooks(HookForward, HookPostrouting); err != nil {
		return err
	}
	return w.transmit(bridged)
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
	w.reportNode(w.record.hook, path.StepFlowtable,
		"flowtable: sent on to "+destination.String()+", past all other rules")
	r, err := w.findRoute()
	if w.frame.out = r.Out; err != nil {
		return err
	}
	return w.transmit(false)
}

// leave is the path of a packet of the node itself through its hooks. It is routed again if a chain
// of type nat changes the destination, or one of type route the mark or an address
// (ip_route_me_harder).
func (w *walk) leave() error {
	r, err := w.findRoute()
	if err != nil {
		return err
	}
	w.frame.out = r.Out
	to := w.frame.destination().Addr()
	if err := w.passHooks(HookOutput); err != nil {
		return err
	}
	if w.rerouted = w.rerouted || w.frame.destination().Addr() != to && w.conn.status&statusDestNAT != 0; w.rerouted {
		if r, err = w.findRoute(); err != nil {
			return err
		}
		w.frame.out = r.Out
	}
	if err := w.checkLinks(false); err != nil {
		return err
	}
	if err := w.passHooks(HookPostrouting); err != nil {
		return err
	}
	if err := w.transmit(false); err != nil || !r.Local {
		return err
	}
	// The loopback returns the packet, with the same connection.
	w.frame.in, w.frame.out, w.frame.fromNode = w.frame.out, Link{}, false
	return w.passHooks(HookIngress, HookPrerouting, HookInput)
}

// transmit sends the packet to the next hop, if that is there: the client is, where its packet is
// taken to come in.
func (w *walk) transmit(bridged bool) error {
	next := w.via(w.frame.destination().Addr())
	out := w.frame.out
	if w.Neighbour != nil && !next.IsMulticast() && (w.answered == nil || out != w.in) {
		s, err := w.neighbours.get(egress{out, next}, func() (Neighbour, error) { return w.Neighbour(next, out) })
		switch {
		case err != nil:
			return err
		case s == NeighbourFailed:
			w.noteUnreachable(fmt.Errorf("%w: no neighbour on %s replies for %s (ip neigh)", ErrNoRoute, out.Name, next))
			return errStopped
		case s == NeighbourUnknown:
			w.addNodeDoubt(fmt.Sprintf("whether a neighbour on %s replies for %s is not known (ip neigh)", out.Name, next))
		}
	}
	if !bridged {
		if err := w.passHooks(HookEgress); err != nil {
			return err
		}
	}
	return w.passPorts(HookEgress, &w.frame.out)
}

// findRoute routes the packet. Of several next hops it picks one.
func (w *walk) findRoute() (Route, error) {
	query := RouteQuery{
		To: w.frame.destination().Addr(), From: w.frame.source().Addr(), In: w.frame.in, Mark: w.frame.mark,
		Protocol: w.frame.protocol, FromPort: w.frame.source().Port(), ToPort: w.frame.destination().Port(),
		Again: w.rerouted,
	}
	query.TOS, query.UnknownTOS = w.frame.tos()
	r, err := w.route(query)
	if errors.Is(err, ErrNoRoute) {
		unrouted, portsErr := w.mayBeUnrouted(err)
		if portsErr != nil {
			return r, portsErr
		}
		if unrouted {
			w.addNodeDoubt("a bridge sends packets on between its ports without routing them")
		}
		w.noteUnreachable(err)
		return r, errStopped
	}
	if err != nil {
		return r, err
	}
	if len(r.Hops) > 0 {
		r = w.pickHop(r.Hops)
	}
	w.nextHop = r.Via
	return r, nil
}

// pickHop picks a next hop; each possible one has a walk of its own.
func (w *walk) pickHop(hops []NextHop) Route {
	total := 0
	for _, h := range hops {
		total += h.Weight
	}
	last := len(hops) - 1
	for _, h := range hops[:last] {
		if w.chooseFirst(float64(h.Weight) / float64(total)) {
			return h.Route
		}
		total -= h.Weight
	}
	return hops[last].Route
}

func (w *walk) via(a netip.Addr) netip.Addr {
	return cmp.Or(w.nextHop, a)
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
	for _, group := range w.baseChains[h] {
		b := group[0]
		if b.hookPriority() >= conntrackPriority && h != HookIngress {
			w.track()
		}
		if !natted && b.Type != natType && b.Priority > h.natPriority() {
			w.finishNAT(h)
			natted = true
		}
		if err := w.passChains(h, group); err != nil {
			return err
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

// passChains passes chains of one priority. Chains of one table are in the order in which they were
// added; the order of tables is not listed. If a chain stops or changes the packet, all other orders
// are tried, too.
func (w *walk) passChains(h Hook, chains []BaseChain) error {
	var passed []BaseChain
	for _, b := range chains {
		rules, err := w.rulesOf(b.Chain)
		if err != nil {
			return err
		}
		if w.passes(h, b) && (b.Drop || len(rules.rules) > 0 || w.owns(b.Table)) {
			passed = append(passed, b)
		}
	}
	i := slices.IndexFunc(passed, func(b BaseChain) bool { return b.Table != passed[0].Table })
	if i < 0 {
		_, err := w.passInOrder(h, passed, w, nil)
		return err
	}
	before, picks := w.clone(), map[Chain][]choice{}
	changed, err := w.passInOrder(h, passed, before, picks)
	if !changed && err == nil || err != nil && !errors.Is(err, errStopped) {
		return err
	}
	doubt := Doubt{Why: fmt.Sprintf("chains of tables %s and %s have the same priority at hook %s, "+
		"and which is first is not known", passed[0].Table, passed[i].Table, h)}
	if len(passed) > maxReordered {
		w.addNodeDoubt(doubt.Why)
		return err
	}
	orders := interleave(passed)
	if order := w.assumeOneOf(len(orders), doubt); order > 0 {
		*w = *before
		_, err = w.passInOrder(h, orders[order], w, picks)
	}
	return err
}

// passInOrder passes chains, and reports whether one has changed the packet from what it was before.
// Picks of a chain are made once, unless picks is nil.
func (w *walk) passInOrder(
	h Hook, chains []BaseChain, before *walk, picks map[Chain][]choice,
) (changed bool, err error) {
	for _, b := range chains {
		if !w.passes(h, b) {
			continue
		}
		first := w.next
		w.repeat = picks[b.Chain]
		accepted, err := w.runBaseChain(b)
		if w.repeat = nil; err != nil {
			return changed, err
		}
		if picks != nil {
			picks[b.Chain] = slices.Clone(w.made[first:w.next])
		}
		if changed = changed || before != w && w.differs(before); !accepted {
			return changed, errStopped
		}
	}
	return changed, nil
}

// maxReordered is the most chains of which all orders are tried.
const maxReordered = 4

// interleave returns the possible orders of chains, the given one first.
func interleave(chains []BaseChain) (all [][]BaseChain) {
	if len(chains) == 0 {
		return [][]BaseChain{nil}
	}
	for i, b := range chains {
		if slices.ContainsFunc(chains[:i], func(o BaseChain) bool { return o.Table == b.Table }) {
			continue // behind an earlier one of its table
		}
		for _, rest := range interleave(slices.Delete(slices.Clone(chains), i, i+1)) {
			all = append(all, append([]BaseChain{b}, rest...))
		}
	}
	return all
}

// passes reports whether the packet passes a chain. Chains of type nat see a connection once.
func (w *walk) passes(h Hook, b BaseChain) bool {
	if !b.appliesTo(&w.frame) || h == HookIngress && w.flow.IsOffloaded() && b.Priority >= flowtablePriority {
		return false
	}
	return b.Type != natType || w.conn.known && w.conn.status&h.natDone() == 0
}

// clone returns a copy of the state of the walk. Its choices are the same.
func (w *walk) clone() *walk {
	out := *w
	out.frame.network, out.frame.transport = w.frame.network.clone(), w.frame.transport.clone()
	out.addedElements = maps.Clone(w.addedElements)
	return &out
}

// differs reports whether the packet or its connection is not as it was.
func (w *walk) differs(before *walk) bool {
	return w.conn != before.conn || !w.frame.equals(&before.frame) || w.changedIPSets != before.changedIPSets ||
		!maps.Equal(w.addedElements, before.addedElements)
}

// finishNAT completes nat at a hook: what no chain decided stays as it is, and the decided
// translation is applied to the packet.
func (w *walk) finishNAT(h Hook) {
	if w.conn.known {
		w.conn.status |= h.natDone()
		w.applyTranslation(h)
	}
}
