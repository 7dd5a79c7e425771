package simulate

import (
	"encoding/binary"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// meta loads a property of the packet, or sets it.
func (w *walk) meta(e *expr.Meta) (verdict, error) {
	if e.SourceRegister {
		return w.setMeta(e)
	}
	v, there := w.metaValue(e.Key)
	if e.Key == expr.MetaKeyPRIORITY && w.frame.priority == nil && w.position.isOurs() {
		v = known(nativeBytes(0)) // whatever it is, it is no number of an endpoint
	}
	if !there {
		return verdictBreak, nil
	}
	w.reason.aboutMeta(e.Key)
	return verdictContinue, w.regs.load(e.Register, v)
}

func (w *walk) setMeta(e *expr.Meta) (verdict, error) {
	if e.Key != expr.MetaKeyMARK && e.Key != expr.MetaKeyPRIORITY {
		return verdictContinue, nil // tracing and the like have no effect here
	}
	v, err := w.regs.read(e.Register, 4)
	if err != nil {
		return verdictBreak, err
	}
	switch {
	case !v.isKnown():
		return verdictBreak, undecidedError("an unknown mark or priority")
	case e.Key == expr.MetaKeyPRIORITY:
		w.frame.priority = append([]byte(nil), v.bytes...)
	default:
		w.setMark(binary.NativeEndian.Uint32(v.bytes))
	}
	return verdictContinue, nil
}

// etherTypes are the numbers of the families in Ethernet.
var etherTypes = [...]uint16{model.IPv4: 0x0800, model.IPv6: 0x86dd}

// netfilterFamilies are the numbers of the families in netfilter.
var netfilterFamilies = [...]byte{model.IPv4: unix.NFPROTO_IPV4, model.IPv6: unix.NFPROTO_IPV6}

// metaValue returns a property of the packet; false if the packet does not have it, so that
// the rule does not match.
func (w *walk) metaValue(key expr.MetaKey) (value, bool) {
	f := &w.frame
	switch key {
	case expr.MetaKeyL4PROTO:
		return known([]byte{byte(f.protocol)}), true
	case expr.MetaKeyNFPROTO:
		return known([]byte{netfilterFamilies[f.family]}), true
	case expr.MetaKeyPROTOCOL:
		return known(binary.BigEndian.AppendUint16(nil, etherTypes[f.family])), true
	case expr.MetaKeyMARK:
		return known(nativeBytes(f.mark)), true
	case expr.MetaKeyPRIORITY:
		if f.priority != nil {
			return known(f.priority), true
		}
		return unknownValue(4), true
	case expr.MetaKeyIIF:
		return known(nativeBytes(uint32(f.in.Index))), true
	case expr.MetaKeyOIF:
		return known(nativeBytes(uint32(f.out.Index))), true
	case expr.MetaKeyIIFNAME:
		return known(interfaceName(f.in.Name)), true
	case expr.MetaKeyOIFNAME:
		return known(interfaceName(f.out.Name)), true
	case expr.MetaKeyPKTTYPE:
		return known([]byte{unix.PACKET_HOST}), true
	case expr.MetaKeySKUID, expr.MetaKeySKGID:
		return unknownValue(4), f.fromNode
	}
	return unknownValue(16), true
}

// interfaceName returns a name as rules compare it.
func interfaceName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

func nativeBytes(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
