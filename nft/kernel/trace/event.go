package trace

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/kernel/trace/ruletext"
)

// Kind says what an [Event] is about.
type Kind uint8

// The kinds of events, as the kernel numbers them (enum nft_trace_types).
const (
	KindPolicy Kind = unix.NFT_TRACETYPE_POLICY // the end of a base chain
	KindReturn Kind = unix.NFT_TRACETYPE_RETURN // back to the chain before
	KindRule   Kind = unix.NFT_TRACETYPE_RULE   // a rule that matched
)

// Event is one step of a packet, as nf_tables tells it.
type Event struct {
	// ID is the packet's, as long as it stays in one piece; it may come again for
	// another one later.
	ID uint32
	// Family is the table's (NFPROTO_*).
	Family uint8
	Table  string
	Chain  string
	Kind   Kind
	// Rule is the rule's handle; zero for a policy.
	Rule    uint64
	Verdict Verdict
	Mark    uint32
	// In and Out are interfaces by number, zero where there is none yet. They come
	// with Packet, with the first event in each hook of each table: nil elsewhere.
	In, Out uint32
	Packet  *Packet
}

// Verdict is what was decided.
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
	// verdictMask parts the verdict from what comes with it, a queue's number for
	// instance.
	verdictMask = 0xff
)

// errTruncated is what a message that ends too early is refused with.
var errTruncated = errors.New("message is truncated")

// nfHeaderLen is the length of a netfilter message's own header (struct nfgenmsg).
const nfHeaderLen = 4

// DecodeEvent reads a message of type NFT_MSG_TRACE, given what follows the netlink
// header (net/netfilter/nf_tables_trace.c).
func DecodeEvent(message []byte) (Event, error) {
	if len(message) < nfHeaderLen {
		return Event{}, fmt.Errorf("decode a trace: %w", errTruncated)
	}
	ad, err := netlink.NewAttributeDecoder(message[nfHeaderLen:])
	if err != nil {
		return Event{}, fmt.Errorf("decode a trace: %w", err)
	}
	ad.ByteOrder = binary.BigEndian
	e := Event{Family: message[0]}
	var raw headers
	for ad.Next() {
		e.decode(ad, &raw)
	}
	if err := ad.Err(); err != nil {
		return Event{}, fmt.Errorf("decode a trace: %w", err)
	}
	if e.Table == "" || e.Chain == "" {
		return Event{}, fmt.Errorf("decode a trace: %w", errTruncated)
	}
	e.Packet = raw.packet()
	return e, nil
}

// headers are the packet's, as far as the kernel tells them.
type headers struct{ network, transport []byte }

func (e *Event) decode(ad *netlink.AttributeDecoder, raw *headers) {
	switch ad.Type() {
	case unix.NFTA_TRACE_TABLE:
		e.Table = ruletext.Printable(ad.String())
	case unix.NFTA_TRACE_CHAIN:
		e.Chain = ruletext.Printable(ad.String())
	case unix.NFTA_TRACE_RULE_HANDLE:
		e.Rule = ad.Uint64()
	case unix.NFTA_TRACE_TYPE:
		e.Kind = Kind(ad.Uint32())
	case unix.NFTA_TRACE_ID:
		e.ID = ad.Uint32()
	case unix.NFTA_TRACE_VERDICT:
		ad.Nested(e.Verdict.decode)
	case unix.NFTA_TRACE_POLICY:
		e.Verdict.Code = int32(ad.Uint32())
	case unix.NFTA_TRACE_MARK:
		e.Mark = ad.Uint32()
	case unix.NFTA_TRACE_IIF:
		e.In = ad.Uint32()
	case unix.NFTA_TRACE_OIF:
		e.Out = ad.Uint32()
	case unix.NFTA_TRACE_NETWORK_HEADER:
		raw.network = ad.Bytes()
	case unix.NFTA_TRACE_TRANSPORT_HEADER:
		raw.transport = ad.Bytes()
	}
}

func (v *Verdict) decode(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_VERDICT_CODE:
			v.Code = int32(ad.Uint32())
		case unix.NFTA_VERDICT_CHAIN:
			v.Chain = ruletext.Printable(ad.String())
		}
	}
	return nil // the decoder keeps its own
}

// PolicyDrop reports whether that is the packet's end.
func (v Verdict) Drops() bool { return v.Code >= 0 && v.Code&verdictMask == nfDrop }

// String is the verdict in nft's words.
func (v Verdict) String() string {
	switch v.Code {
	case unix.NFT_CONTINUE:
		return "continue"
	case unix.NFT_BREAK:
		return "break"
	case unix.NFT_JUMP:
		return "jump " + v.Chain
	case unix.NFT_GOTO:
		return "goto " + v.Chain
	case unix.NFT_RETURN:
		return "return"
	}
	if v.Code < 0 {
		return fmt.Sprintf("verdict %d", v.Code)
	}
	switch v.Code & verdictMask {
	case nfDrop:
		return "drop"
	case nfAccept:
		return "accept"
	case nfStolen:
		return "stolen"
	case nfQueue:
		return fmt.Sprintf("queue to %d", uint32(v.Code)>>16)
	}
	return fmt.Sprintf("verdict %d", v.Code)
}
