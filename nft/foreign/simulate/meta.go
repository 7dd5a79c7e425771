package simulate

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

func (w *walk) meta(e *expr.Meta) (verdict, error) {
	if e.SourceRegister {
		return w.setMeta(e)
	}
	v, there, err := w.metaValue(e.Key)
	if err != nil {
		return verdictBreak, err
	}
	if e.Key == expr.MetaKeyPRIORITY && w.frame.priority == nil && w.position.own {
		v = known(nativeBytes(0)) // whatever it is, it is not a number that the table has set
	}
	if !there {
		return verdictBreak, nil
	}
	w.aboutMeta(e.Key)
	err = w.regs.load(e.Register, v)
	if e.Key == expr.MetaKeyLEN {
		low, high := w.frame.lengths()
		w.regs.bounds = bounds{register: e.Register, length: 4, low: low, high: high, native: true}
	}
	return verdictContinue, err
}

func (w *walk) setMeta(e *expr.Meta) (verdict, error) {
	switch e.Key {
	case expr.MetaKeyMARK, expr.MetaKeyPRIORITY:
	case expr.MetaKeyPKTTYPE:
		b, err := w.regs.readKnown(e.Register, 1, "an unknown packet type")
		if err == nil && b[0] <= unix.PACKET_OTHERHOST {
			w.frame.packetType = slices.Clone(b)
		}
		return verdictContinue, err
	default:
		return verdictContinue, nil // tracing and the like have no effect here
	}
	b, err := w.regs.readKnown(e.Register, 4, "an unknown mark or priority")
	switch {
	case err != nil:
		return verdictBreak, err
	case e.Key == expr.MetaKeyPRIORITY:
		w.frame.priority = slices.Clone(b)
	default:
		w.setMark(binary.NativeEndian.Uint32(b))
	}
	return verdictContinue, nil
}

var (
	etherTypes    = [...]uint16{model.IPv4: 0x0800, model.IPv6: 0x86dd}
	familyNumbers = [...]byte{model.IPv4: unix.NFPROTO_IPV4, model.IPv6: unix.NFPROTO_IPV6}
)

// metaValue returns a property of the packet; false if the packet does not have it: the rule
// does not match.
func (w *walk) metaValue(key expr.MetaKey) (v value, has bool, err error) {
	f := &w.frame
	switch key {
	case expr.MetaKeyL4PROTO:
		return known([]byte{byte(f.protocol)}), true, nil
	case expr.MetaKeyNFPROTO:
		return known([]byte{familyNumbers[f.family]}), true, nil
	case expr.MetaKeyPROTOCOL:
		return known(binary.BigEndian.AppendUint16(nil, etherTypes[f.family])), true, nil
	case expr.MetaKeyMARK:
		return known(nativeBytes(f.mark)), true, nil
	case expr.MetaKeyPRIORITY:
		if f.priority != nil {
			return known(f.priority), true, nil
		}
		return unknownValue(4), true, nil
	case expr.MetaKeyIIF:
		return known(nativeBytes(uint32(f.in.Index))), true, nil
	case expr.MetaKeyOIF:
		return known(nativeBytes(uint32(f.out.Index))), true, nil
	case expr.MetaKeyIIFNAME:
		return known(interfaceName(f.in.Name)), true, nil
	case expr.MetaKeyOIFNAME:
		return known(interfaceName(f.out.Name)), true, nil
	case expr.MetaKeyPKTTYPE:
		kind, err := w.packetType()
		return known([]byte{kind}), true, err
	case expr.MetaKeySKUID, expr.MetaKeySKGID: // root, as in matchOwner
		return known(nativeBytes(0)), f.fromNode, nil
	case expr.MetaKeyLEN:
		return unknownValue(4), true, nil
	case expr.MetaKeyCGROUP:
		return unknownValue(4), f.fromNode, nil
	}
	return unknownValue(16), true, nil
}

func interfaceName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

func nativeBytes(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func (w *walk) fib(e *expr.Fib) (verdict, error) {
	a, other := w.frame.destination().Addr(), w.frame.source().Addr()
	if e.FlagSADDR {
		a, other = other, a
	}
	required := Link{}
	switch {
	case e.FlagIIF:
		required = w.frame.in
	case e.FlagOIF:
		required = w.frame.out
	}
	switch {
	case e.ResultADDRTYPE:
		kind, err := w.addressTypeOn(a, required)
		w.about(a.String(), func([]byte, []byte) string { return "an address of this node" })
		return verdictContinue, errors.Join(err, w.regs.load(e.Register, known(nativeBytes(kind))))
	case e.ResultOIF, e.ResultOIFNAME:
		out, err := w.routeOf(a, other, required, e)
		if err != nil {
			return verdictBreak, err
		}
		return verdictContinue, w.regs.load(e.Register, fibResult(out, e))
	}
	return verdictBreak, undecidedError("fib of another kind")
}

// addressTypeOn returns the type of an address, which is local only on the interface that has it,
// if one is given.
func (w *walk) addressTypeOn(a netip.Addr, on Link) (uint32, error) {
	kind, err := w.addressType(a)
	if err != nil || on == (Link{}) || kind != unix.RTN_LOCAL {
		return kind, err
	}
	r, err := w.route(RouteQuery{To: a, Lookup: true})
	if err == nil && r.Out != on {
		kind = unix.RTN_UNICAST
	}
	return kind, err
}

// routeOf returns the interface towards an address from another one; the zero value if there is
// none, or if it is not the required one.
func (w *walk) routeOf(a, from netip.Addr, required Link, e *expr.Fib) (Link, error) {
	if w.frame.in.Name == loopback && w.record.hook.isInput() {
		return w.frame.in, nil // nft_fib_can_skip
	}
	query := RouteQuery{To: a, From: from, Lookup: true, Protocol: w.frame.protocol}
	if e.FlagMARK {
		query.Mark = w.frame.mark
	}
	if e.FlagIIF && w.record.hook == HookForward {
		query.In = w.frame.out
	}
	r, err := w.lookUpSource(query)
	switch {
	case errors.Is(err, ErrNoRoute) || err == nil && r.Local:
		return Link{}, nil
	case err != nil:
		return Link{}, err
	case required == (Link{}) && len(r.Hops) > 1:
		return Link{}, errSeveralHops
	case required == (Link{}):
		return r.Out, nil
	}
	uses, err := w.uses(r, required)
	if !uses {
		required = Link{}
	}
	return required, err
}

// lookUpSource looks up the way back to the source of the packet, as filters of sources do.
func (w *walk) lookUpSource(q RouteQuery) (Route, error) {
	q.TOS, q.UnknownTOS = w.frame.tos()
	if !q.From.IsGlobalUnicast() && !q.From.IsLinkLocalUnicast() && !q.From.IsLoopback() {
		q.From = netip.Addr{} // a broadcast or multicast
	}
	return w.route(q)
}

const errSeveralHops = undecidedError("a lookup of a route with several next hops")

// uses reports whether a next hop is on a link. For IPv6 the kernel picks one before it compares.
func (w *walk) uses(r Route, l Link) (bool, error) {
	n := 0
	for _, h := range r.Hops {
		if h.Out == l {
			n++
		}
	}
	if n > 0 && n < len(r.Hops) && w.frame.family == model.IPv6 {
		return false, errSeveralHops
	}
	return n > 0 || len(r.Hops) == 0 && r.Out == l, nil
}

// loopback is the name of the loopback interface, which cannot be changed.
const loopback = "lo"

// isInput reports whether packets at the hook have come in by an interface, and are not routed
// on.
func (h Hook) isInput() bool { return h == HookIngress || h == HookPrerouting || h == HookInput }

func fibResult(out Link, e *expr.Fib) value {
	switch {
	case e.FlagPRESENT && out.Index != 0:
		return known([]byte{1})
	case e.FlagPRESENT:
		return known([]byte{0})
	case e.ResultOIFNAME:
		return known(interfaceName(out.Name))
	}
	return known(nativeBytes(uint32(out.Index)))
}
