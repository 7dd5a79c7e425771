package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Encoded is a batch as the bytes of one netlink transaction, and what is needed
// to say which part of the batch an error of the kernel is about.
type Encoded struct {
	Bytes    []byte
	Messages int

	batch Batch
	// marks[i] is the op, and for elements the first of them, that message
	// number i+1 carries; number 0 begins the transaction.
	marks []messageOrigin
}

// messageOrigin says where a message begins and what it carries.
type messageOrigin struct {
	offset  int // of the message in Bytes
	op      int
	element int
}

// Encode turns the batch into bytes. Messages are numbered from zero. An error
// is a mistake in the schema, never one of the elements.
func (b Batch) Encode() (*Encoded, error) { return b.EncodeOver(nil) }

// EncodeOver is Encode, but writes over bytes that are of no use any more, if it finds
// room there: the steps of a first load are megabytes each.
func (b Batch) EncodeOver(old []byte) (*Encoded, error) { return b.encode(old, TableName, true) }

// EncodeCheck is Encode for a table of another name and without the end: the
// kernel tries such a transaction and takes it back.
func (b Batch) EncodeCheck(table string) (*Encoded, error) { return b.encode(nil, table, false) }

func (b Batch) encode(old []byte, table string, commit bool) (*Encoded, error) {
	e := &encoder{table: table, out: Encoded{batch: b, Bytes: slices.Grow(old[:0], b.room())}}
	e.control(unix.NFNL_MSG_BATCH_BEGIN)
	for i, op := range b {
		e.op = i
		op.encode(e)
	}
	if commit {
		e.control(unix.NFNL_MSG_BATCH_END)
	}
	if err := errors.Join(e.errs...); err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	return &e.out, nil
}

// room is about how many bytes the batch will take, so that they need not be
// moved while they become more.
func (b Batch) room() int {
	n := 0
	for _, op := range b {
		switch op := op.(type) {
		case AddElements:
			n += roomForObject + len(op.Elements)*op.Set.roomForElement()
		case AddEndpoints:
			n += roomForObject + len(op.slots)*op.Set.roomForElement()
		case DeleteElements:
			n += roomForObject + len(op.Elements)*op.Set.roomForElement()
		default:
			n += roomForObject
		}
	}
	return n
}

// roomForObject is what most messages need that carry no elements.
const roomForObject = 256

// encoder appends messages and attributes to one buffer. Lengths are filled in
// when a message or attribute is closed, so nothing is copied.
type encoder struct {
	table  string
	out    Encoded
	op     int    // the op being encoded
	setID  uint32 // the number the last new set has within the transaction
	errs   []error
	opened int // where the open message begins
}

// Sizes of netlink's headers (include/uapi/linux/netlink.h, nfnetlink.h).
const (
	headerLen   = 16
	attrLen     = 4
	nfHeaderLen = 4
)

// control begins or ends the transaction.
func (e *encoder) control(kind uint16) {
	e.header(kind, unix.NLM_F_REQUEST, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)
	e.close()
}

// message opens a message of nf_tables.
func (e *encoder) message(kind uint16, flags uint16, f model.Family) {
	e.out.marks = append(e.out.marks, messageOrigin{offset: len(e.out.Bytes), op: e.op})
	e.header(unix.NFNL_SUBSYS_NFTABLES<<8|kind, unix.NLM_F_REQUEST|flags, families[f].number, 0)
}

func (e *encoder) header(kind, flags uint16, family uint8, resource uint16) {
	e.opened = len(e.out.Bytes)
	b := binary.NativeEndian.AppendUint32(e.out.Bytes, 0) // length, see close
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, uint32(e.out.Messages))
	b = binary.NativeEndian.AppendUint32(b, 0) // the kernel knows the port
	b = append(b, family, unix.NFNETLINK_V0)
	e.out.Bytes = binary.BigEndian.AppendUint16(b, resource)
	e.out.Messages++
}

// close fills in the length of the open message.
func (e *encoder) close() {
	binary.NativeEndian.PutUint32(e.out.Bytes[e.opened:], uint32(len(e.out.Bytes)-e.opened))
}

// open begins an attribute and returns where, for shut.
func (e *encoder) open(kind uint16) int {
	at := len(e.out.Bytes)
	b := append(e.out.Bytes, 0, 0)
	e.out.Bytes = binary.NativeEndian.AppendUint16(b, kind)
	return at
}

// nest begins an attribute that holds others.
func (e *encoder) nest(kind uint16) int { return e.open(kind | unix.NLA_F_NESTED) }

// shut fills in the length of the attribute that began at, and pads it.
func (e *encoder) shut(at int) {
	n := len(e.out.Bytes) - at
	if n > maxAttribute {
		e.errs = append(e.errs, fmt.Errorf("attribute of %d bytes is too long", n))
	}
	binary.NativeEndian.PutUint16(e.out.Bytes[at:], uint16(n))
	for len(e.out.Bytes)%4 != 0 {
		e.out.Bytes = append(e.out.Bytes, 0)
	}
}

// maxAttribute is the longest attribute: its length is a 16-bit number.
const maxAttribute = 1<<16 - 1

func (e *encoder) text(kind uint16, s string) {
	at := e.open(kind)
	e.out.Bytes = append(append(e.out.Bytes, s...), 0)
	e.shut(at)
}

func (e *encoder) bytes(kind uint16, b []byte) {
	at := e.open(kind)
	e.out.Bytes = append(e.out.Bytes, b...)
	e.shut(at)
}

// number writes a 32-bit number; nf_tables keeps them in network order.
func (e *encoder) number(kind uint16, n uint32) {
	at := e.open(kind)
	e.out.Bytes = binary.BigEndian.AppendUint32(e.out.Bytes, n)
	e.shut(at)
}

func (o AddTable) encode(e *encoder) {
	e.message(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, o.Family)
	e.text(unix.NFTA_TABLE_NAME, e.table)
	if o.Protected {
		e.number(unix.NFTA_TABLE_FLAGS, tableOwned|tablePersists)
	}
	e.close()
}

// Flags and attributes of tables that belong to a socket
// (include/uapi/linux/netfilter/nf_tables.h).
const (
	tableOwned     = 0x2 // NFT_TABLE_F_OWNER
	tablePersists  = 0x4 // NFT_TABLE_F_PERSIST
	attrTableOwner = 7   // NFTA_TABLE_OWNER
)

func (o DeleteTable) encode(e *encoder) {
	e.message(unix.NFT_MSG_DELTABLE, 0, o.Family)
	e.text(unix.NFTA_TABLE_NAME, e.table)
	e.close()
}

func (o AddChain) encode(e *encoder) {
	e.message(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, o.Chain.Family)
	e.text(unix.NFTA_CHAIN_TABLE, e.table)
	e.text(unix.NFTA_CHAIN_NAME, o.Chain.Name())
	if h := chainSchema[o.Chain.Kind].hook; h != nil {
		at := e.nest(unix.NFTA_CHAIN_HOOK)
		e.number(unix.NFTA_HOOK_HOOKNUM, h.number)
		e.number(unix.NFTA_HOOK_PRIORITY, uint32(h.priority))
		e.shut(at)
		e.number(unix.NFTA_CHAIN_POLICY, policyAccept)
		e.text(unix.NFTA_CHAIN_TYPE, h.chainType)
	}
	e.close()
}

func (o FlushChain) encode(e *encoder) {
	e.message(unix.NFT_MSG_DELRULE, 0, o.Family)
	e.text(unix.NFTA_RULE_TABLE, e.table)
	e.text(unix.NFTA_RULE_CHAIN, o.Name)
	e.close()
}

func (o DeleteChain) encode(e *encoder) {
	e.message(unix.NFT_MSG_DELCHAIN, 0, o.Family)
	e.text(unix.NFTA_CHAIN_TABLE, e.table)
	e.text(unix.NFTA_CHAIN_NAME, o.Name)
	e.close()
}

// anonymousMap and anonymousSet are how a rule names what it brings along; the kernel
// puts a number for %d.
const (
	anonymousMap = "__map%d"
	anonymousSet = "__set%d"
)

func (o AddRule) encode(e *encoder) {
	for _, s := range o.Rule {
		switch {
		case s.choices != nil:
			e.choices(o.Chain.Family, s.choices)
		case s.protocols != nil:
			e.protocols(o.Chain.Family, s.protocols)
		}
	}
	e.message(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, o.Chain.Family)
	e.text(unix.NFTA_RULE_TABLE, e.table)
	e.text(unix.NFTA_RULE_CHAIN, o.Chain.Name())
	list := e.nest(unix.NFTA_RULE_EXPRESSIONS)
	for _, s := range o.Rule {
		e.statement(o.Chain.Family, s)
	}
	e.shut(list)
	e.bytes(unix.NFTA_RULE_USERDATA, o.Rule.Fingerprint().userdata())
	e.close()
}

// statement appends the expressions of a statement. A look-up in an anonymous
// map refers to the one written last.
func (e *encoder) statement(f model.Family, s statement) {
	for _, x := range s.expressions {
		if l, ok := x.(*expr.Lookup); ok && s.brings() {
			own := *l
			own.SetID = e.setID
			x = &own
		}
		b, err := marshal(f, x)
		if err != nil {
			e.errs = append(e.errs, fmt.Errorf("%s: %w", s.text, err))
		}
		e.bytes(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, b)
	}
}

// marshal encodes an expression.
func marshal(f model.Family, x any) ([]byte, error) {
	switch x := x.(type) {
	case payloadWrite:
		return x.marshal(), nil
	case expr.Any:
		return expr.Marshal(families[f].number, x)
	}
	return nil, fmt.Errorf("%T is no expression", x)
}

// The fingerprint lies behind a tag that no program uses in a rule's userdata,
// as type, length and value; nft skips what it does not know.
const fingerprintTag = 0x76

func (p Fingerprint) userdata() []byte {
	return binary.BigEndian.AppendUint64([]byte{fingerprintTag, 8}, uint64(p))
}
