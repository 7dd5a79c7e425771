package trace

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/simulate"
)

// A Kind is the kind of a [Step].
type Kind uint8

// The kinds, as the kernel numbers them (enum nft_trace_types).
const (
	KindPolicy Kind = unix.NFT_TRACETYPE_POLICY // the end of a base chain
	KindRule   Kind = unix.NFT_TRACETYPE_RULE   // a rule that matched
)

// An event is a message of nf_tables about one step of a packet.
type event struct {
	Step
	// id identifies the packet while it stays in one piece; a later packet may have the
	// same.
	id uint32
	at simulate.Chain
	// in and out are indexes of interfaces, zero if there is none yet. They and packet come
	// with the first event in each hook of each table.
	in, out uint32
	packet  *simulate.Packet // or nil
}

// decodeEvent decodes a message of type NFT_MSG_TRACE, given what follows the netlink header
// (net/netfilter/nf_tables_trace.c).
func decodeEvent(message []byte) (event, error) {
	var d attr.Decoder
	attributes := d.Body(message)
	var e event
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
	if d.Err() == nil && (e.at.Table.Name == "" || e.Chain == "") {
		d.Fail(attr.ErrTruncated)
	}
	if err := d.Err(); err != nil {
		return event{}, fmt.Errorf("decode a trace: %w", err)
	}
	e.at.Table.Family, e.at.Name = dump.FamilyName(message[0]), e.Chain
	e.packet = decodePacket(network, transport)
	return e, nil
}

func (e *event) decode(d *attr.Decoder, kind uint16, value []byte) {
	switch kind {
	case unix.NFTA_TRACE_TABLE:
		e.at.Table.Name = printableString(value)
	case unix.NFTA_TRACE_CHAIN:
		e.Chain = printableString(value)
	case unix.NFTA_TRACE_RULE_HANDLE:
		e.Rule.Handle = d.Uint64(value)
	case unix.NFTA_TRACE_TYPE:
		e.Kind = Kind(d.Uint32(value))
	case unix.NFTA_TRACE_ID:
		e.id = d.Uint32(value)
	case unix.NFTA_TRACE_VERDICT:
		e.Verdict = *simulate.DecodeVerdict(d, value)
		e.Verdict.Chain = simulate.Printable(e.Verdict.Chain)
	case unix.NFTA_TRACE_POLICY:
		e.Verdict.Kind = expr.VerdictKind(int32(d.Uint32(value)))
	case unix.NFTA_TRACE_MARK:
		e.Mark = d.Uint32(value)
	case unix.NFTA_TRACE_IIF:
		e.in = d.Uint32(value)
	case unix.NFTA_TRACE_OIF:
		e.out = d.Uint32(value)
	}
}

// printableString decodes a string that another program chose.
func printableString(b []byte) string { return simulate.Printable(attr.String(b)) }

// decodePacket decodes the headers of a packet. It returns nil without an IP header. Ports are
// where TCP, UDP and SCTP have them: packets of other protocols are another program's.
func decodePacket(network, transport []byte) *simulate.Packet {
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
	return &simulate.Packet{
		From: from, FromPort: fromPort, To: netip.AddrPortFrom(to, toPort), Protocol: model.Protocol(protocol),
	}
}
