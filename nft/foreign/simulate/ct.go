package simulate

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
)

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
		return verdictBreak, nil // it is that of the connection that announced this one
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
