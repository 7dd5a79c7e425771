package conntrack

import (
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
)

// rawEntry are attributes of an entry as the kernel wrote them. Zone is nil in the default
// zone; a zone of one direction is within its tuple.
type rawEntry struct{ reply, zone, id []byte }

// key returns what identifies the entry to the kernel. Its tuple is the reply tuple, because
// that has the endpoint: a new flow may be kept at the same place of memory, and then has
// the same original tuple and the same id.
func (r rawEntry) key() string {
	var e attr.Encoder
	e.Data(unix.NLA_F_NESTED|ctaTupleReply, r.reply)
	if r.zone != nil {
		e.Data(ctaZone, r.zone)
	}
	e.Data(ctaID, r.id)
	return string(e.Bytes)
}

// decode decodes an entry, without its key, from the bytes after the netlink header. It
// reports false if the entry has no addresses and ports. Attributes are read up to the
// first one that is malformed.
func decode(data []byte) (e Entry, r rawEntry, ok bool) {
	var d attr.Decoder
	state := byte(0)
	for kind, value := range d.Attributes(d.Body(data)) {
		switch kind {
		case ctaTupleOrig:
			t := decodeTuple(value)
			e.Protocol, e.Client, e.Original = t.protocol, t.source(), t.destination()
		case ctaTupleReply:
			t := decodeTuple(value)
			r.reply, e.Reply, e.SeenSource = value, t.source(), t.destination()
		case ctaStatus:
			e.Status = d.Uint32(value)
		case ctaMark:
			e.Mark = d.Uint32(value)
		case ctaLabels:
			copy(e.Labels[:], value)
		case ctaTimeout:
			e.Expires = time.Duration(d.Uint32(value)) * time.Second
		case ctaTimestamp:
			if start := d.Find(value, ctaTimestampStart); start != nil {
				e.Started = time.Unix(0, int64(d.Uint64(start)))
			}
		case ctaProtoInfo:
			state = decodeState(value)
		case ctaZone:
			r.zone = value
		case ctaID:
			r.id, e.ID = value, d.Uint32(value)
		}
	}
	e.setState(state)
	return e, r, e.Original.Addr().IsValid() && e.Reply.Addr().IsValid() && r.id != nil
}

// Bits of the status of entries (include/uapi/linux/netfilter/nf_conntrack_common.h).
const (
	statusSeenReply = 1 << 1 // IPS_SEEN_REPLY
	statusAssured   = 1 << 2 // IPS_ASSURED: both sides have sent what opens a connection
	statusDstNAT    = 1 << 5 // IPS_DST_NAT: the destination was translated
	// IPS_OFFLOAD. If a device has taken the flow, IPS_HW_OFFLOAD is set in addition
	// (ctnetlink_dump_info).
	statusOffloaded = 1 << 14
)

// Names of states (net/netfilter/nf_conntrack_proto_{tcp,sctp}.c).
var (
	tcpStates = []string{
		"NONE", "SYN_SENT", "SYN_RECV", "ESTABLISHED", "FIN_WAIT", "CLOSE_WAIT", "LAST_ACK", "TIME_WAIT", "CLOSE",
		"SYN_SENT2",
	}
	sctpStates = []string{
		"NONE", "CLOSED", "COOKIE_WAIT", "COOKIE_ECHOED", "ESTABLISHED",
		"SHUTDOWN_SENT", "SHUTDOWN_RECD", "SHUTDOWN_ACK_SENT", "HEARTBEAT_SENT",
	}
)

// Some of these states, by number.
const (
	tcpSynSent, tcpEstablished, tcpTimeWait, tcpClose = 1, 3, 7, 8
	sctpClosed, sctpShutdownAckSent                   = 1, 7
)

// setState sets the fields that follow from the status, and from the state of TCP or
// SCTP.
func (e *Entry) setState(state byte) {
	e.Offloaded, e.Replied = e.Status&statusOffloaded != 0, e.Status&statusSeenReply != 0
	var names []string
	e.Open = true
	switch e.Protocol {
	case model.TCP:
		names, e.Open = tcpStates, e.Offloaded || state >= tcpSynSent && state <= tcpEstablished
		e.Closed = state == tcpTimeWait || state == tcpClose
	case model.SCTP:
		names, e.Closed = sctpStates, state == sctpClosed || state == sctpShutdownAckSent
		e.Aborted = e.Closed && e.Replied && e.Status&statusAssured == 0
	case model.UDP:
	}
	switch {
	case e.Offloaded || names == nil:
	case int(state) < len(names):
		e.State = names[state]
	default:
		e.State = strconv.Itoa(int(state))
	}
}

// IsAssured reports whether both sides have sent what opens a connection, so the client's address is not
// forged.
func (e *Entry) IsAssured() bool { return e.Status&statusAssured != 0 }

// A tuple is one direction of an entry.
type tuple struct {
	protocol         model.Protocol
	src, dst         netip.Addr
	srcPort, dstPort uint16
}

func (t tuple) source() netip.AddrPort      { return netip.AddrPortFrom(t.src, t.srcPort) }
func (t tuple) destination() netip.AddrPort { return netip.AddrPortFrom(t.dst, t.dstPort) }

func decodeTuple(b []byte) (t tuple) {
	var d attr.Decoder
	for part, nested := range d.Attributes(b) {
		for kind, value := range d.Attributes(nested) {
			switch [2]uint16{part, kind} {
			case [2]uint16{ctaTupleIP, ctaIPv4Src}, [2]uint16{ctaTupleIP, ctaIPv6Src}:
				t.src, _ = netip.AddrFromSlice(value)
			case [2]uint16{ctaTupleIP, ctaIPv4Dst}, [2]uint16{ctaTupleIP, ctaIPv6Dst}:
				t.dst, _ = netip.AddrFromSlice(value)
			case [2]uint16{ctaTupleProto, ctaProtoNum}:
				t.protocol = model.Protocol(d.Uint8(value))
			case [2]uint16{ctaTupleProto, ctaProtoSrcPort}:
				t.srcPort = d.Uint16(value)
			case [2]uint16{ctaTupleProto, ctaProtoDstPort}:
				t.dstPort = d.Uint16(value)
			}
		}
	}
	return t
}

func decodeState(b []byte) (state byte) {
	var d attr.Decoder
	for _, kind := range [...]uint16{ctaProtoInfoTCP, ctaProtoInfoSCTP} {
		if s := d.Find(d.Find(b, kind), ctaInfoState); s != nil {
			state = d.Uint8(s)
		}
	}
	return state
}
