package simulate

import "github.com/google/nftables/expr"

// header returns the header that offsets count from.
func (w *walk) header(base expr.PayloadBase) (header, error) {
	switch base {
	case expr.PayloadBaseNetworkHeader:
		return w.frame.network, nil
	case expr.PayloadBaseTransportHeader:
		return w.frame.transport, nil
	}
	return header{}, undecidedError("a header other than network and transport")
}

// payload loads from the packet, or writes to it.
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
