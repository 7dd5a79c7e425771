// Package wire is the netlink form of the rule set: it encodes a batch as the bytes of
// one nf_tables transaction, decodes the kernel's replies, and explains its refusals. It
// does no I/O; the sockets are in kube-vmap/nft/kernel.
//
//	nft.Batch  --Encode-->  Encoded{Bytes}  --kernel-->  committed
//	Error      <--Explain--  message 17, offset 88, EEXIST
//	nft.Tables <--Decode, DecodeElements--  dumps of chains, rules, sets and elements
//
// Every op of a batch is one message, or several if it lists more elements than one
// message takes (64 KiB). [Encoded] remembers which op, and which of its elements, each
// message began with. So the sequence number and the byte offset of a refusal identify
// the refused element, and the Service port that it serves: see [Error].
//
// Rules are written as expressions and never decoded: kernels differ in what they add
// to an expression. A rule carries the fingerprint of its text in its userdata instead,
// and rules are compared by that ([nft.Rule.Fingerprint]).
//
// # Why not google/nftables
//
// Expressions are marshalled by github.com/google/nftables/expr. Everything else is encoded
// here and not by that library's Conn, for these reasons:
//
//   - Conn allocates for every element and attribute: 2 million allocations and 210 ms for
//     330,000 elements, where one buffer takes 5 ms for the bytes alone. Rules are sent with
//     NLM_F_ECHO, and the kernel copies each of them back.
//   - It does not report which element of a message was refused, so one bad Service port
//     would stop all others.
//   - It reads dumps in small pieces, and the kernel walks the set from its start for each:
//     15 s or more for 300,000 elements, instead of 2 s.
//   - It opens sockets, which packages other than nft/kernel must not.
package wire

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

// Encoded is a batch as the bytes of one netlink transaction. It remembers which part of
// the batch each message carries, to explain errors of the kernel.
type Encoded struct {
	Bytes    []byte
	Messages int

	batch nft.Batch
	// origins[i] belongs to message number i+1; number 0 begins the transaction.
	origins []origin
}

// origin is where a message begins, and its content.
type origin struct {
	offset  int // of the message in Bytes
	op      int // its number in the batch
	element int // the number of its first element in the op
}

// Encode encodes the batch as one transaction. Messages are numbered from zero. An error
// is a mistake in the schema, never one in the elements.
func Encode(b nft.Batch) (*Encoded, error) { return EncodeInto(nil, b) }

// EncodeInto is [Encode] into a buffer that is no longer needed, if the batch fits in it:
// the steps of a first load are megabytes each.
func EncodeInto(buffer []byte, b nft.Batch) (*Encoded, error) {
	return encode(buffer, b, nft.TableName(), true)
}

// EncodeCheck is [Encode] for a table of another name and without the end of the
// transaction: the kernel tries it and rolls it back.
func EncodeCheck(b nft.Batch, table string) (*Encoded, error) { return encode(nil, b, table, false) }

func encode(buffer []byte, b nft.Batch, table string, commit bool) (*Encoded, error) {
	c := b.Counts()
	room := len(b)*objectBytes + (c.Added+c.Deleted)*elementBytes
	e := &encoder{Encoder: attr.Encoder{Bytes: slices.Grow(buffer[:0], room)}, table: table}
	e.begin(b)
	for i, op := range b {
		e.op = i
		e.encode(op)
	}
	if commit {
		e.openControl(unix.NFNL_MSG_BATCH_END)
		e.CloseMessage()
	}
	if err := errors.Join(append(e.errs, e.Err())...); err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	return &Encoded{Bytes: e.Bytes, Messages: e.Messages, batch: b, origins: e.origins}, nil
}

// About the size of most messages without elements, and of most elements, to avoid growing the
// buffer.
const (
	objectBytes  = 256
	elementBytes = 80
)

// encoder appends the messages of a transaction to one buffer.
type encoder struct {
	attr.Encoder
	table   string
	op      int // the op being encoded
	origins []origin
	setID   uint32 // the number that the last new set has within the transaction
	errs    []error
}

// begin begins the transaction, for the generation of nf_tables that the batch depends on, if
// any.
func (e *encoder) begin(b nft.Batch) {
	e.openControl(unix.NFNL_MSG_BATCH_BEGIN)
	for _, op := range b {
		if op, foreign := op.(nft.ForeignChange); foreign && op.Generation != 0 {
			e.Uint32(unix.NFNL_BATCH_GENID, op.Generation)
			break
		}
	}
	e.CloseMessage()
}

// openControl opens a message that begins or ends the transaction.
func (e *encoder) openControl(kind uint16) {
	e.OpenMessage(kind, unix.NLM_F_REQUEST)
	e.NetfilterHeader(unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)
}

// open begins a message of nf_tables.
func (e *encoder) open(kind, flags uint16, f model.Family) {
	e.openFor(kind, flags, nft.FamilyNumber(f))
}

// openFor is open for any family of nf_tables.
func (e *encoder) openFor(kind, flags uint16, family uint8) {
	e.origins = append(e.origins, origin{offset: len(e.Bytes), op: e.op})
	e.OpenMessage(unix.NFNL_SUBSYS_NFTABLES<<8|kind, unix.NLM_F_REQUEST|flags)
	e.NetfilterHeader(family, 0)
}

// named appends a message about an object of a table, by the attributes that have the
// name of the table and of the object.
func (e *encoder) named(kind uint16, f model.Family, tableKind, nameKind uint16, name string) {
	e.open(kind, 0, f)
	e.String(tableKind, e.table)
	e.String(nameKind, name)
	e.CloseMessage()
}

func (e *encoder) encode(op nft.Op) {
	switch op := op.(type) {
	case nft.AddTable:
		e.addTable(op)
	case nft.DeleteTable:
		e.open(unix.NFT_MSG_DELTABLE, 0, op.Family)
		e.String(unix.NFTA_TABLE_NAME, e.table)
		e.CloseMessage()
	case nft.AddCounter:
		e.addCounter(op)
	case nft.AddSet:
		e.addSet(op)
	case nft.DeleteSet:
		e.named(unix.NFT_MSG_DELSET, op.Family, unix.NFTA_SET_TABLE, unix.NFTA_SET_NAME, op.Name)
	case nft.AddChain:
		e.addChain(op)
	case nft.FlushChain:
		e.named(unix.NFT_MSG_DELRULE, op.Family, unix.NFTA_RULE_TABLE, unix.NFTA_RULE_CHAIN, op.Name)
	case nft.DeleteChain:
		e.named(unix.NFT_MSG_DELCHAIN, op.Family, unix.NFTA_CHAIN_TABLE, unix.NFTA_CHAIN_NAME, op.Name)
	case nft.AddRule:
		e.addRule(op)
	case nft.AddElements:
		e.elements(added, op.Set, len(op.Elements), func(i int) *nft.Element { return &op.Elements[i] })
	case nft.AddFrontends:
		var element nft.Element
		e.elements(added, op.Set, op.Len(), func(i int) *nft.Element {
			op.Make(i, &element)
			return &element
		})
	case nft.DeleteElements:
		e.elements(deleted, op.Set, len(op.Elements), func(i int) *nft.Element { return &op.Elements[i] })
	case nft.AddConnections:
		e.connections(added, op.Family, op.List)
	case nft.DeleteConnections:
		e.connections(deleted, op.Family, op.List)
	case nft.ForeignChange:
		e.openFor(op.Kind, op.Flags, op.Family)
		e.Bytes = append(e.Bytes, op.Attributes...)
		e.CloseMessage()
	default:
		panic(fmt.Sprintf("wire: %T has no encoding", op))
	}
}

// Flags and attributes that package unix has no names for
// (include/uapi/linux/netfilter/nf_tables.h).
const (
	tableOwned     = 0x2 // NFT_TABLE_F_OWNER
	tablePersists  = 0x4 // NFT_TABLE_F_PERSIST
	attrTableOwner = 7   // NFTA_TABLE_OWNER
	attrChainFlags = 10  // NFTA_CHAIN_FLAGS
	chainBound     = 0x4 // NFT_CHAIN_BINDING
)

func (e *encoder) addTable(o nft.AddTable) {
	e.open(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, o.Family)
	e.String(unix.NFTA_TABLE_NAME, e.table)
	if o.Protected {
		e.Uint32(unix.NFTA_TABLE_FLAGS, tableOwned|tablePersists)
	}
	e.CloseMessage()
}

func (e *encoder) addCounter(o nft.AddCounter) {
	e.open(unix.NFT_MSG_NEWOBJ, unix.NLM_F_CREATE, o.Family)
	e.String(unix.NFTA_OBJ_TABLE, e.table)
	e.String(unix.NFTA_OBJ_NAME, o.Counter.String())
	e.Uint32(unix.NFTA_OBJ_TYPE, unix.NFT_OBJECT_COUNTER)
	e.Close(e.OpenNested(unix.NFTA_OBJ_DATA)) // it starts at zero
	e.CloseMessage()
}

func (e *encoder) addChain(o nft.AddChain) {
	e.open(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, o.Chain.Family)
	e.String(unix.NFTA_CHAIN_TABLE, e.table)
	e.String(unix.NFTA_CHAIN_NAME, o.Chain.Name())
	if h := o.Chain.Hook(); h != (nft.HookState{}) {
		at := e.OpenNested(unix.NFTA_CHAIN_HOOK)
		e.Uint32(unix.NFTA_HOOK_HOOKNUM, h.Number)
		e.Uint32(unix.NFTA_HOOK_PRIORITY, uint32(h.Priority))
		e.Close(at)
		e.Uint32(unix.NFTA_CHAIN_POLICY, h.Policy)
		e.String(unix.NFTA_CHAIN_TYPE, h.Type)
	}
	e.CloseMessage()
}
