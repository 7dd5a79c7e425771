package simulate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

type header value

func newHeader(n int) header { return header{make([]byte, n), make([]byte, n)} }

func (h header) markUnknown(from, to int) {
	for i := from; i < to; i++ {
		h.unknown[i] = 0xff
	}
}

func (h header) set(at int, b []byte) {
	copy(h.bytes[at:], b)
	clear(h.unknown[at : at+len(b)])
}

func (h header) clone() header { return header{slices.Clone(h.bytes), slices.Clone(h.unknown)} }

func (h header) equals(o header) bool {
	return bytes.Equal(h.bytes, o.bytes) && bytes.Equal(h.unknown, o.unknown)
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
		h.markUnknown(2, 6)   // length, id
		h.unknown[6] = 0x40   // whether it may be fragmented
		h.markUnknown(8, 9)   // TTL
		h.markUnknown(10, 12) // checksum
	} else {
		h = newHeader(40)
		h.bytes[0], h.bytes[6] = 0x60, byte(p.Protocol)
		h.markUnknown(1, 6) // flow label, length
		h.unknown[1] = 0x0f // the rest is of the traffic class
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
	// priority and packetType are nil until a rule sets them.
	priority, packetType []byte
	in, out              Link
	// fromNode is true if a program of the node sends it, through a socket.
	fromNode bool
}

func (f *frame) equals(o *frame) bool {
	return f.network.equals(o.network) && f.transport.equals(o.transport) && f.mark == o.mark &&
		bytes.Equal(f.priority, o.priority) && bytes.Equal(f.packetType, o.packetType)
}

func (f *frame) destination() netip.AddrPort {
	return f.end(addressFields[f.family].destination, destinationPort)
}

func (f *frame) source() netip.AddrPort { return f.end(addressFields[f.family].source, sourcePort) }

func (f *frame) end(address, port int) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(f.network.bytes[address : address+addressFields[f.family].length])
	if f.transport.unknown[port] != 0 {
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
		err := w.regs.load(e.DestRegister, v)
		w.regs.bounds = w.payloadBounds(e, v)
		return verdictContinue, err
	}
	from, err := w.regs.read(e.SourceRegister, int(e.Len))
	if err != nil {
		return verdictBreak, err
	}
	before := w.frame.destination()
	clear(v.unknown)
	copy(v.bytes, from.bytes)
	copy(v.unknown, from.unknown)
	if after := w.frame.destination(); after != before {
		w.report(EventRewrite, "", Event{Destination: after})
	}
	return verdictContinue, nil
}

// hopLimitFields are the offsets of the time to live, lengthFields of the length.
var (
	hopLimitFields = [...]uint32{model.IPv4: 8, model.IPv6: 7}
	lengthFields   = [...]uint32{model.IPv4: 2, model.IPv6: 4}
)

// lengths returns the least and the greatest length of the packet with its headers. Data may follow
// in all but the packets that open a connection of TCP.
func (f *frame) lengths() (low, high uint64) {
	const maxPacket, maxHeader = 65535, 60
	low = uint64(len(f.network.bytes) + len(f.transport.bytes))
	if f.protocol == model.TCP && f.transport.bytes[tcpFlags]&tcpSYN != 0 {
		return low, uint64(len(f.network.bytes)) + maxHeader
	}
	return low, maxPacket
}

// payloadBounds returns the bounds of a field. That the time to live of a packet is just over is so
// unlikely that it must not make each answer uncertain.
func (w *walk) payloadBounds(e *expr.Payload, v value) bounds {
	f, network := &w.frame, e.Base == expr.PayloadBaseNetworkHeader
	low, high := f.lengths()
	b := bounds{register: e.DestRegister, length: int(e.Len), low: low, high: high}
	switch {
	case v.isKnown():
	case network && e.Len == 1 && e.Offset == hopLimitFields[f.family]:
		b.low, b.high = 2, 255
		return b
	case network && e.Len == 2 && e.Offset == lengthFields[f.family]:
		if f.family == model.IPv6 {
			b.low, b.high = low-uint64(len(f.network.bytes)), high-uint64(len(f.network.bytes))
		}
		return b
	case !network && f.protocol == model.UDP && e.Len == 2 && e.Offset == 4:
		b.low, b.high = low-uint64(len(f.network.bytes)), high-uint64(len(f.network.bytes))
		return b
	}
	return bounds{}
}

// tos returns the type of service, or the traffic class, and whether it is unknown.
func (f *frame) tos() (tos uint8, unknown bool) {
	b, u := f.network.bytes, f.network.unknown
	if f.family == model.IPv4 {
		return b[1], u[1] != 0
	}
	return b[0]<<4 | b[1]>>4, u[0]&0x0f|u[1]&0xf0 != 0
}

// checkHeader drops what the kernel does not forward, or not deliver, and counts the hop. A bridge is
// none.
func (w *walk) checkHeader(local, bridged bool) error {
	f := &w.frame
	if f.packetType != nil {
		ports, err := w.portsOf(f.in)
		if err != nil {
			return err
		}
		if len(ports) > 0 {
			w.addNodeDoubt("a rule sets meta pkttype of packets that come in by bridge " + f.in.Name)
		}
	}
	switch {
	case f.packetType != nil && f.packetType[0] != unix.PACKET_HOST && (!local || f.protocol != model.UDP):
		w.noteUnreachable(fmt.Errorf("%w: a rule has made it a packet for another host (meta pkttype)", ErrNoRoute))
		return errStopped
	case local, bridged:
		return nil
	}
	at := int(hopLimitFields[f.family])
	switch {
	case f.network.unknown[at] != 0:
	case f.network.bytes[at] <= 1:
		w.noteUnreachable(fmt.Errorf("%w: its time to live ends on this node", ErrNoRoute))
		return errStopped
	default:
		f.network.bytes[at]--
	}
	return nil
}
