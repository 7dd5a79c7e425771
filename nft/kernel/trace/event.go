package trace

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/simulate"
)

// A Kind is the kind of a [Step].
type Kind uint8

// The kinds, as the kernel numbers them (enum nft_trace_types).
const (
	KindPolicy Kind = unix.NFT_TRACETYPE_POLICY // the end of a base chain
	KindReturn Kind = unix.NFT_TRACETYPE_RETURN // back to the calling chain
	KindRule   Kind = unix.NFT_TRACETYPE_RULE   // a rule that matched
)

// An Event is a message of nf_tables about one step of a packet.
type Event struct {
	// ID identifies the packet while it stays in one piece; a later packet may have the
	// same.
	ID    uint32
	Chain simulate.Chain
	Kind  Kind
	// Rule is the handle of the rule; zero for a policy.
	Rule    uint64
	Verdict Verdict
	Mark    uint32
	// In and Out are indexes of interfaces, zero if there is none yet. They and Packet come
	// with the first event in each hook of each table.
	In, Out uint32
	Packet  *Packet // or nil
}

// A Verdict is what a rule or policy decided.
type Verdict struct {
	Code  int32  // NF_* and NFT_*
	Chain string // to jump or go to
}

// Codes of verdicts (include/uapi/linux/netfilter.h).
const (
	nfDrop   = 0
	nfAccept = 1
	nfStolen = 2
	nfQueue  = 3
	// verdictMask separates the verdict from its argument, such as the number of a queue.
	verdictMask = 0xff
)

// decodeEvent decodes a message of type NFT_MSG_TRACE, given what follows the netlink header
// (net/netfilter/nf_tables_trace.c).
func decodeEvent(message []byte) (Event, error) {
	var d attr.Decoder
	attributes := d.Body(message)
	var e Event
	var network, transport []byte
	for kind, value := range d.Attributes(attributes) {
		switch kind {
		case unix.NFTA_TRACE_NETWORK_HEADER:
			network = value
		case unix.NFTA_TRACE_TRANSPORT_HEADER:
			transport = value
		default:
			e.decode(&d, kind, value)
		}
	}
	if d.Err() == nil && (e.Chain.Table.Name == "" || e.Chain.Name == "") {
		d.Fail(attr.ErrTruncated)
	}
	if err := d.Err(); err != nil {
		return Event{}, fmt.Errorf("decode a trace: %w", err)
	}
	e.Chain.Table.Family = dump.FamilyName(message[0])
	e.Packet = decodePacket(network, transport)
	return e, nil
}

func (e *Event) decode(d *attr.Decoder, kind uint16, value []byte) {
	switch kind {
	case unix.NFTA_TRACE_TABLE:
		e.Chain.Table.Name = printableString(value)
	case unix.NFTA_TRACE_CHAIN:
		e.Chain.Name = printableString(value)
	case unix.NFTA_TRACE_RULE_HANDLE:
		e.Rule = d.Uint64(value)
	case unix.NFTA_TRACE_TYPE:
		e.Kind = Kind(d.Uint32(value))
	case unix.NFTA_TRACE_ID:
		e.ID = d.Uint32(value)
	case unix.NFTA_TRACE_VERDICT:
		v := simulate.DecodeVerdict(d, value)
		e.Verdict = Verdict{int32(v.Kind), simulate.Printable(v.Chain)}
	case unix.NFTA_TRACE_POLICY:
		e.Verdict.Code = int32(d.Uint32(value))
	case unix.NFTA_TRACE_MARK:
		e.Mark = d.Uint32(value)
	case unix.NFTA_TRACE_IIF:
		e.In = d.Uint32(value)
	case unix.NFTA_TRACE_OIF:
		e.Out = d.Uint32(value)
	}
}

// printableString decodes a string that another program chose.
func printableString(b []byte) string { return simulate.Printable(attr.String(b)) }

func (v Verdict) drops() bool { return v.Code >= 0 && v.Code&verdictMask == nfDrop }

// String returns the verdict in the syntax of nft.
func (v Verdict) String() string { return simulate.VerdictText(v.Code, v.Chain) }

// A Packet is the addresses and ports of a packet at one point of its path. Translations
// change them on the way.
type Packet struct {
	From, To netip.AddrPort
	Protocol model.Protocol
}

// String returns the packet as in "TCP 10.244.1.2:43210 > 10.96.0.10:53".
func (p Packet) String() string {
	return fmt.Sprintf("%s %s > %s", strings.ToUpper(p.Protocol.String()), p.From, p.To)
}

// decodePacket decodes the headers of a packet. It returns nil without an IP header. Ports are
// where TCP, UDP and SCTP have them: packets of other protocols are another program's.
func decodePacket(network, transport []byte) *Packet {
	var protocol byte
	var from, to netip.Addr
	switch b := network; {
	case len(b) >= 20 && b[0]>>4 == 4:
		protocol = b[9]
		from, to = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	case len(b) >= 40 && b[0]>>4 == 6:
		protocol = b[6] // the next header, even if that is an extension header
		from, to = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	default:
		return nil
	}
	var fromPort, toPort uint16
	if len(transport) >= 4 {
		fromPort, toPort = binary.BigEndian.Uint16(transport), binary.BigEndian.Uint16(transport[2:])
	}
	return &Packet{netip.AddrPortFrom(from, fromPort), netip.AddrPortFrom(to, toPort), model.Protocol(protocol)}
}
