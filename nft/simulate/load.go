package simulate

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// header is the part of the packet that offsets count from.
func (w *walk) header(base expr.PayloadBase) (header, error) {
	switch base {
	case expr.PayloadBaseNetworkHeader:
		return w.frame.network, nil
	case expr.PayloadBaseTransportHeader:
		return w.frame.transport, nil
	}
	return header{}, undecidedError("a header that is neither the network's nor the transport's")
}

// payload reads from the packet, or writes to it.
func (w *walk) payload(e *expr.Payload) (verdict, error) {
	h, err := w.header(e.Base)
	if err != nil {
		return verdictBreak, err
	}
	v, there := h.at(e.Offset, e.Len)
	if !there {
		return verdictBreak, nil
	}
	if e.OperationType == expr.PayloadLoad {
		w.reason.aboutPayload(w, e)
		return verdictContinue, w.regs.load(e.DestRegister, v)
	}
	from, err := w.regs.read(e.SourceRegister, int(e.Len))
	if err != nil {
		return verdictBreak, err
	}
	before := w.frame.destination()
	copy(v.bytes, from.bytes)
	copy(v.unknown, from.unknown)
	w.noteNewDestination(before)
	return verdictContinue, nil
}

// meta reads what is known about the packet, or changes it.
func (w *walk) meta(e *expr.Meta) (verdict, error) {
	if e.SourceRegister {
		return w.setMeta(e)
	}
	v, there := w.metaValue(e.Key)
	if !there {
		return verdictBreak, nil
	}
	w.reason.aboutMeta(e.Key)
	return verdictContinue, w.regs.load(e.Register, v)
}

func (w *walk) setMeta(e *expr.Meta) (verdict, error) {
	if e.Key != expr.MetaKeyMARK {
		return verdictContinue, nil // tracing, priorities and the like decide nothing
	}
	v, err := w.regs.read(e.Register, 4)
	if err != nil {
		return verdictBreak, err
	}
	if !v.isKnown() {
		return verdictBreak, undecidedError("a mark that is not known here")
	}
	w.setMark(binary.NativeEndian.Uint32(v.bytes))
	return verdictContinue, nil
}

// etherTypes are the families as interfaces name them.
var etherTypes = [...]uint16{model.IPv4: 0x0800, model.IPv6: 0x86dd}

// netfilterFamilies are the families as netfilter names them.
var netfilterFamilies = [...]byte{model.IPv4: unix.NFPROTO_IPV4, model.IPv6: unix.NFPROTO_IPV6}

// metaValue is something about the packet; false if it has none, so that the rule
// does not match.
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

// interfaceName is a name as it is compared.
func interfaceName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

func nativeBytes(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// ct reads from the packet's connection, or changes it.
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
	return verdictContinue, w.regs.load(e.Register, w.ctValue(e))
}

func (w *walk) setCt(e *expr.Ct) (verdict, error) {
	switch e.Key {
	case expr.CtKeyMARK:
		v, err := w.regs.read(e.Register, 4)
		if err != nil {
			return verdictBreak, err
		}
		w.conn.mark = binary.NativeEndian.Uint32(v.bytes)
	case expr.CtKeyZONE:
		return verdictBreak, undecidedError("a zone of connection tracking is chosen")
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
	case expr.CtKeyDIRECTION:
		return known([]byte{expr.CtDirOriginal})
	case expr.CtKeyL3PROTOCOL:
		return known([]byte{netfilterFamilies[w.frame.family]})
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

// portValue is a port, of which zero is one that is not known.
func portValue(a netip.AddrPort) value {
	if a.Port() == 0 {
		return unknownValue(2)
	}
	return known(binary.BigEndian.AppendUint16(nil, a.Port()))
}
