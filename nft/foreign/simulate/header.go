package simulate

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

// A header is a header of the packet.
type header value

func newHeader(n int) header { return header{make([]byte, n), make([]bool, n)} }

func (h header) markUnknown(from, to int) {
	for i := from; i < to; i++ {
		h.unknown[i] = true
	}
}

func (h header) set(at int, b []byte) {
	copy(h.bytes[at:], b)
	clear(h.unknown[at : at+len(b)])
}

// at returns bytes of the header; false if the header is shorter.
func (h header) at(offset, n uint32) (value, bool) {
	if uint64(offset)+uint64(n) > uint64(len(h.bytes)) {
		return value{}, false
	}
	return value{h.bytes[offset : offset+n], h.unknown[offset : offset+n]}, true
}

var addressFields = [...]struct{ source, destination, length int }{
	model.IPv4: {12, 16, 4},
	model.IPv6: {8, 24, 16},
}

func newNetworkHeader(p Packet) (h header) {
	if p.Family() == model.IPv4 {
		h = newHeader(20)
		h.bytes[0], h.bytes[9] = 0x45, byte(p.Protocol)
		h.markUnknown(2, 9)   // length, id, fragments, TTL
		h.markUnknown(10, 12) // checksum
	} else {
		h = newHeader(40)
		h.bytes[0], h.bytes[6] = 0x60, byte(p.Protocol)
		h.markUnknown(1, 6) // flow label, length
		h.markUnknown(7, 8) // hop limit
	}
	a := addressFields[p.Family()]
	h.set(a.source, p.From.AsSlice())
	h.set(a.destination, p.To.Addr().AsSlice())
	return h
}

// Offsets of the ports, which are the same in all three protocols.
const (
	sourcePort      = 0
	destinationPort = 2
)

// Offsets of the flags of TCP, and of the type of the first chunk of SCTP.
const (
	tcpFlags  = 13
	chunkType = 12
)

// newTransportHeader returns the header of the first packet of a connection: a SYN, a
// datagram, an INIT. Packets of an established connection have data.
func newTransportHeader(p Packet, established bool) header {
	length := map[model.Protocol]int{model.TCP: 20, model.UDP: 8, model.SCTP: 16}[p.Protocol]
	h := newHeader(length)
	h.markUnknown(4, length)
	switch {
	case p.Protocol == model.TCP && established:
		h.set(tcpFlags, []byte{tcpACK})
	case p.Protocol == model.TCP:
		h.set(8, make([]byte, 4)) // no acknowledgement
		h.set(tcpFlags, []byte{tcpSYN})
	case p.Protocol == model.SCTP && !established:
		h.set(4, make([]byte, 4)) // no tag
		h.set(chunkType, []byte{chunkInit})
	}
	h.setPort(sourcePort, p.FromPort)
	h.setPort(destinationPort, p.To.Port())
	return h
}

// newReplyHeader returns the header of the first answer to such a packet: a SYN with ACK, a
// datagram, an INIT ACK.
func newReplyHeader(p Packet, established bool) header {
	h := newTransportHeader(p, true)
	switch {
	case p.Protocol == model.TCP && !established:
		h.set(tcpFlags, []byte{tcpSYN | tcpACK})
	case p.Protocol == model.SCTP && !established:
		h.set(chunkType, []byte{chunkInitACK})
	}
	return h
}

// Values of those fields.
const (
	tcpSYN, tcpACK          = 0x02, 0x10
	chunkInit, chunkInitACK = 1, 2
)

// A frame is the packet in its current state.
type frame struct {
	family    model.Family
	protocol  model.Protocol
	network   header
	transport header
	mark      uint32
	priority  []byte // nil until a rule sets it
	in, out   Link
	// fromNode is true if a program of the node sends it, through a socket.
	fromNode bool
}

func (f *frame) destination() netip.AddrPort {
	return f.end(addressFields[f.family].destination, destinationPort)
}

func (f *frame) source() netip.AddrPort { return f.end(addressFields[f.family].source, sourcePort) }

func (f *frame) end(address, port int) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(f.network.bytes[address : address+addressFields[f.family].length])
	if f.transport.unknown[port] {
		return netip.AddrPortFrom(addr, 0)
	}
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(f.transport.bytes[port:]))
}

func (f *frame) setDestination(to netip.AddrPort) {
	f.network.set(addressFields[f.family].destination, to.Addr().AsSlice())
	f.transport.setPort(destinationPort, to.Port())
}

func (f *frame) setSource(as netip.AddrPort) {
	f.network.set(addressFields[f.family].source, as.Addr().AsSlice())
	f.transport.setPort(sourcePort, as.Port())
}

// setPort sets a port; zero means that it is unknown.
func (h header) setPort(at int, port uint16) {
	h.set(at, binary.BigEndian.AppendUint16(nil, port))
	if port == 0 {
		h.markUnknown(at, at+2)
	}
}

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

func (w *walk) payload(e *expr.Payload) (verdict, error) {
	h, err := w.header(e.Base)
	if err != nil {
		return verdictBreak, err
	}
	v, there := h.at(e.Offset, e.Len)
	if !there { // options or data, of which nothing is known
		return verdictBreak, undecidedError(unknownContent)
	}
	if e.OperationType == expr.PayloadLoad {
		w.aboutPayload(e)
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
