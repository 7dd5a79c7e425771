package simulate

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// header is the part of the packet that offsets count from.
func (w *way) header(base expr.PayloadBase) (header, error) {
	switch base {
	case expr.PayloadBaseNetworkHeader:
		return w.frame.network, nil
	case expr.PayloadBaseTransportHeader:
		return w.frame.transport, nil
	}
	return header{}, unsaidError("a header that is neither the network's nor the transport's")
}

// payload reads from the packet, or writes to it.
func (w *way) payload(e *expr.Payload) (verdict, error) {
	h, err := w.header(e.Base)
	if err != nil {
		return breaks, err
	}
	v, there := h.at(e.Offset, e.Len)
	if !there {
		return breaks, nil
	}
	if e.OperationType == expr.PayloadLoad {
		w.reason.read(w, e)
		return goesOn, w.regs.load(e.DestRegister, v)
	}
	from, err := w.regs.read(e.SourceRegister, int(e.Len))
	if err != nil {
		return breaks, err
	}
	before := w.frame.destination()
	copy(v.bytes, from.bytes)
	copy(v.unknown, from.unknown)
	w.readdressed(before)
	return goesOn, nil
}

// meta reads what is known about the packet, or changes it.
func (w *way) meta(e *expr.Meta) (verdict, error) {
	if e.SourceRegister {
		return w.setMeta(e)
	}
	v, there := w.metaValue(e.Key)
	if !there {
		return breaks, nil
	}
	w.reason.about(e.Key)
	return goesOn, w.regs.load(e.Register, v)
}

func (w *way) setMeta(e *expr.Meta) (verdict, error) {
	if e.Key != expr.MetaKeyMARK {
		return goesOn, nil // tracing, priorities and the like decide nothing
	}
	v, err := w.regs.read(e.Register, 4)
	if err != nil {
		return breaks, err
	}
	if !v.certain() {
		return breaks, unsaidError("a mark that is not known here")
	}
	w.marked(binary.NativeEndian.Uint32(v.bytes))
	return goesOn, nil
}

// etherTypes are the families as interfaces name them.
var etherTypes = [...]uint16{model.IPv4: 0x0800, model.IPv6: 0x86dd}

// protocols are the families as netfilter names them.
var protocols = [...]byte{model.IPv4: unix.NFPROTO_IPV4, model.IPv6: unix.NFPROTO_IPV6}

// metaValue is something about the packet; false if it has none, so that the rule
// does not match.
func (w *way) metaValue(key expr.MetaKey) (value, bool) {
	f := &w.frame
	switch key {
	case expr.MetaKeyL4PROTO:
		return known([]byte{byte(f.protocol)}), true
	case expr.MetaKeyNFPROTO:
		return known([]byte{protocols[f.family]}), true
	case expr.MetaKeyPROTOCOL:
		return known(binary.BigEndian.AppendUint16(nil, etherTypes[f.family])), true
	case expr.MetaKeyMARK:
		return known(native(f.mark)), true
	case expr.MetaKeyIIF:
		return known(native(uint32(f.in.Index))), true
	case expr.MetaKeyOIF:
		return known(native(uint32(f.out.Index))), true
	case expr.MetaKeyIIFNAME:
		return known(interfaceName(f.in.Name)), true
	case expr.MetaKeyOIFNAME:
		return known(interfaceName(f.out.Name)), true
	case expr.MetaKeyPKTTYPE:
		return known([]byte{unix.PACKET_HOST}), true
	case expr.MetaKeySKUID, expr.MetaKeySKGID:
		return unknownValue(4), f.sent
	}
	return unknownValue(16), true
}

// interfaceName is a name as it is compared.
func interfaceName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// ct reads from the packet's connection, or changes it.
func (w *way) ct(e *expr.Ct) (verdict, error) {
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
		return goesOn, w.regs.load(e.Register, known(native(state)))
	}
	if !c.known {
		return breaks, nil
	}
	return goesOn, w.regs.load(e.Register, w.ctValue(e))
}

func (w *way) setCt(e *expr.Ct) (verdict, error) {
	switch e.Key {
	case expr.CtKeyMARK:
		v, err := w.regs.read(e.Register, 4)
		if err != nil {
			return breaks, err
		}
		w.conn.mark = binary.NativeEndian.Uint32(v.bytes)
	case expr.CtKeyZONE:
		return breaks, unsaidError("a zone of connection tracking is chosen")
	}
	return goesOn, nil
}

func (w *way) ctValue(e *expr.Ct) value {
	c := &w.conn
	source, destination := c.client, c.asked
	if e.Direction == expr.CtDirReply {
		source, destination = c.endpoint, c.seen
	}
	switch e.Key {
	case expr.CtKeySTATUS:
		return known(native(c.status))
	case expr.CtKeyMARK:
		return known(native(c.mark))
	case expr.CtKeyDIRECTION:
		return known([]byte{expr.CtDirOriginal})
	case expr.CtKeyL3PROTOCOL:
		return known([]byte{protocols[w.frame.family]})
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
