package simulate

import (
	"encoding/binary"
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
	w.reason.aboutMeta(e.Key)
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
