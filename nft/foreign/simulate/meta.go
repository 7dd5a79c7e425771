package simulate

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
)

func (w *walk) meta(e *expr.Meta) (verdict, error) {
	if e.SourceRegister {
		return w.setMeta(e)
	}
	v, there, err := w.metaValue(e.Key)
	if err != nil {
		return verdictBreak, err
	}
	if e.Key == expr.MetaKeyPRIORITY && w.frame.priority == nil && w.position.isOurs() {
		v = known(nativeBytes(0)) // whatever it is, it is no number of an endpoint
	}
	if !there {
		return verdictBreak, nil
	}
	w.aboutMeta(e.Key)
	return verdictContinue, w.regs.load(e.Register, v)
}

func (w *walk) setMeta(e *expr.Meta) (verdict, error) {
	if e.Key != expr.MetaKeyMARK && e.Key != expr.MetaKeyPRIORITY {
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

var etherTypes = [...]uint16{model.IPv4: 0x0800, model.IPv6: 0x86dd}

// metaValue returns a property of the packet; false if the packet does not have it, so that
// the rule does not match.
func (w *walk) metaValue(key expr.MetaKey) (v value, has bool, err error) {
	f := &w.frame
	switch key {
	case expr.MetaKeyL4PROTO:
		return known([]byte{byte(f.protocol)}), true, nil
	case expr.MetaKeyNFPROTO:
		return known([]byte{nft.FamilyNumber(f.family)}), true, nil
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

const errInterfaceType = undecidedError("a match of the type of an address of one interface")

func (w *walk) fib(e *expr.Fib) (verdict, error) {
	a := w.frame.destination().Addr()
	if e.FlagSADDR {
		a = w.frame.source().Addr()
	}
	switch {
	case e.ResultADDRTYPE:
		kind, err := w.addressType(a)
		if (e.FlagIIF || e.FlagOIF) && kind == unix.RTN_LOCAL {
			return verdictBreak, errInterfaceType
		}
		w.about(a.String(), func([]byte, []byte) string { return "an address of this node" })
		return verdictContinue, errors.Join(err, w.regs.load(e.Register, known(nativeBytes(kind))))
	case e.ResultOIF, e.ResultOIFNAME:
		out, err := w.routeOf(a, e)
		if err != nil {
			return verdictBreak, err
		}
		return verdictContinue, w.regs.load(e.Register, fibResult(out, e))
	}
	return verdictBreak, undecidedError("fib of another kind")
}

// routeOf returns the interface towards an address; the zero value if there is none, or if
// it is not the required one.
func (w *walk) routeOf(a netip.Addr, e *expr.Fib) (Link, error) {
	if w.frame.in.Name == loopback && w.record.hook.isInput() {
		return w.frame.in, nil // nft_fib_can_skip
	}
	query := RouteQuery{To: a}
	if e.FlagMARK {
		query.Mark = w.frame.mark
	}
	r, err := w.route(query)
	wanted := Link{}
	switch {
	case errors.Is(err, ErrNoRoute) || err == nil && r.Local:
		return Link{}, nil
	case err != nil:
		return Link{}, err
	case e.FlagIIF:
		wanted = w.frame.in
	case e.FlagOIF:
		wanted = w.frame.out
	}
	if wanted != (Link{}) && wanted != r.Out {
		return Link{}, nil
	}
	return r.Out, nil
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
