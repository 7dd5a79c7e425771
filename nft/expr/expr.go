// Package expr encodes the expressions of the rules that we write. What others have in the kernel is
// decoded by github.com/google/nftables/expr, in nft/foreign only: these are the same names, with the
// fields that we use, and the tests compare the bytes.
//
// Keys, operations and registers are numbers of include/uapi/linux/netfilter/nf_tables.h. Bytes are
// as in a register: of this machine's order, or of the packet's.
package expr

import (
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// Any is an expression.
type Any interface {
	// encode appends the attributes, and returns the kernel's name of the expression.
	encode(e *attr.Encoder) string
}

// Encode returns an expression as the attributes of a list's element.
func Encode(x Any) []byte {
	var data, e attr.Encoder
	e.String(unix.NFTA_EXPR_NAME, x.encode(&data))
	e.Data(unix.NFTA_EXPR_DATA|unix.NLA_F_NESTED, data.Bytes)
	return e.Bytes
}

// Meta loads what the kernel knows of a packet, or with SourceRegister sets it.
type Meta struct {
	Key, Register  uint32
	SourceRegister bool
}

func (x *Meta) encode(e *attr.Encoder) string {
	e.Uint32(unix.NFTA_META_KEY, x.Key)
	e.Uint32(choose[uint16](x.SourceRegister, unix.NFTA_META_SREG, unix.NFTA_META_DREG), x.Register)
	return "meta"
}

// Ct loads what connection tracking knows of a packet, or with SourceRegister sets it.
type Ct struct {
	Key, Register  uint32
	SourceRegister bool
}

func (x *Ct) encode(e *attr.Encoder) string {
	e.Uint32(unix.NFTA_CT_KEY, x.Key)
	e.Uint32(choose[uint16](x.SourceRegister, unix.NFTA_CT_SREG, unix.NFTA_CT_DREG), x.Register)
	switch x.Key {
	case unix.NFT_CT_SRC_IP, unix.NFT_CT_SRC_IP6, unix.NFT_CT_PROTO_SRC,
		unix.NFT_CT_DST_IP, unix.NFT_CT_DST_IP6, unix.NFT_CT_PROTO_DST:
		e.Uint8(unix.NFTA_CT_DIRECTION, 0) // IP_CT_DIR_ORIGINAL
	}
	return "ct"
}

// Payload loads bytes of a packet.
type Payload struct{ DestRegister, Base, Offset, Len uint32 }

func (x *Payload) encode(e *attr.Encoder) string {
	numbers(e, unix.NFTA_PAYLOAD_DREG, x.DestRegister, x.Base, x.Offset, x.Len)
	return "payload"
}

// PayloadWrite changes bytes of a packet, and its checksums.
type PayloadWrite struct {
	Base, Offset, Length         uint32
	Register                     uint32
	ChecksumType, ChecksumOffset uint32
	TransportChecksumToo         bool
}

func (x *PayloadWrite) encode(e *attr.Encoder) string {
	e.Uint32(unix.NFTA_PAYLOAD_SREG, x.Register)
	numbers(e, unix.NFTA_PAYLOAD_BASE, x.Base, x.Offset, x.Length)
	flags := choose[uint32](x.TransportChecksumToo, unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR, 0)
	numbers(e, unix.NFTA_PAYLOAD_CSUM_TYPE, x.ChecksumType, x.ChecksumOffset, flags)
	return "payload"
}

// SourceType loads the type of a packet's source address (RTN_*).
type SourceType struct{ Register uint32 }

func (x *SourceType) encode(e *attr.Encoder) string {
	e.Uint32(unix.NFTA_FIB_DREG, x.Register)
	e.Uint32(unix.NFTA_FIB_FLAGS, unix.NFTA_FIB_F_SADDR)
	e.Uint32(unix.NFTA_FIB_RESULT, unix.NFT_FIB_RESULT_ADDRTYPE)
	return "fib"
}

// Immediate loads bytes.
type Immediate struct {
	Register uint32
	Data     []byte
}

func (x *Immediate) encode(e *attr.Encoder) string {
	e.Uint32(unix.NFTA_IMMEDIATE_DREG, x.Register)
	value(e, unix.NFTA_IMMEDIATE_DATA, x.Data)
	return "immediate"
}

// Bitwise is register & Mask ^ Xor.
type Bitwise struct {
	SourceRegister, DestRegister, Len uint32
	Mask, Xor                         []byte
}

func (x *Bitwise) encode(e *attr.Encoder) string {
	numbers(e, unix.NFTA_BITWISE_SREG, x.SourceRegister, x.DestRegister, x.Len)
	value(e, unix.NFTA_BITWISE_MASK, x.Mask)
	value(e, unix.NFTA_BITWISE_XOR, x.Xor)
	return "bitwise"
}

// Byteorder changes the byte order of numbers of Size bytes.
type Byteorder struct{ SourceRegister, DestRegister, Op, Len, Size uint32 }

func (x *Byteorder) encode(e *attr.Encoder) string {
	numbers(e, unix.NFTA_BYTEORDER_SREG, x.SourceRegister, x.DestRegister, x.Op, x.Len, x.Size)
	return "byteorder"
}

// Cmp ends the rule unless the comparison holds.
type Cmp struct {
	Op, Register uint32
	Data         []byte
}

func (x *Cmp) encode(e *attr.Encoder) string {
	numbers(e, unix.NFTA_CMP_SREG, x.Register, x.Op)
	value(e, unix.NFTA_CMP_DATA, x.Data)
	return "cmp"
}

// Numgen loads a number below Modulus.
type Numgen struct{ Register, Modulus, Type uint32 }

func (x *Numgen) encode(e *attr.Encoder) string {
	numbers(e, unix.NFTA_NG_DREG, x.Register, x.Modulus, x.Type, 0)
	return "numgen"
}

// Hash loads Jenkins' hash of Length bytes, below Modulus.
type Hash struct{ SourceRegister, DestRegister, Length, Modulus, Seed uint32 }

func (x *Hash) encode(e *attr.Encoder) string {
	numbers(e, unix.NFTA_HASH_SREG, x.SourceRegister, x.DestRegister, x.Length, x.Modulus, x.Seed)
	numbers(e, unix.NFTA_HASH_OFFSET, 0, unix.NFT_HASH_JENKINS)
	return "hash"
}

// Lookup ends the rule unless the key is in the set; with IsDestRegSet it loads a map's value.
type Lookup struct {
	SourceRegister, DestRegister uint32
	IsDestRegSet                 bool
	SetID                        uint32
	SetName                      string
}

func (x *Lookup) encode(e *attr.Encoder) string {
	e.Uint32(unix.NFTA_LOOKUP_SREG, x.SourceRegister)
	if x.IsDestRegSet {
		e.Uint32(unix.NFTA_LOOKUP_DREG, x.DestRegister)
	}
	e.String(unix.NFTA_LOOKUP_SET, x.SetName)
	e.Uint32(unix.NFTA_LOOKUP_SET_ID, x.SetID)
	return "lookup"
}

// Dynset changes a set's element of a key, with data unless SrcRegData is zero, a timeout unless that
// is zero, or a counter of its own.
type Dynset struct {
	SrcRegKey, SrcRegData, SetID uint32
	SetName                      string
	Operation                    uint32
	Timeout                      time.Duration
	Counter                      bool
}

func (x *Dynset) encode(e *attr.Encoder) string {
	e.Uint32(unix.NFTA_DYNSET_SREG_KEY, x.SrcRegKey)
	if x.SrcRegData != 0 {
		e.Uint32(unix.NFTA_DYNSET_SREG_DATA, x.SrcRegData)
	}
	e.Uint32(unix.NFTA_DYNSET_OP, x.Operation)
	if x.Timeout != 0 {
		e.Uint64(unix.NFTA_DYNSET_TIMEOUT, uint64(x.Timeout.Milliseconds()))
	}
	e.String(unix.NFTA_DYNSET_SET_NAME, x.SetName)
	e.Uint32(unix.NFTA_DYNSET_SET_ID, x.SetID)
	if x.Counter {
		e.Data(unix.NFTA_DYNSET_EXPR, Encode(&Counter{}))
	}
	e.Uint32(unix.NFTA_DYNSET_FLAGS, 0)
	return "dynset"
}

// Counter counts packets and bytes.
type Counter struct{}

func (*Counter) encode(e *attr.Encoder) string {
	e.Uint64(unix.NFTA_COUNTER_BYTES, 0)
	e.Uint64(unix.NFTA_COUNTER_PACKETS, 0)
	return "counter"
}

// Limit ends the rule for packets above a rate for each second.
type Limit struct{ Rate, Burst uint32 }

func (x *Limit) encode(e *attr.Encoder) string {
	e.Uint64(unix.NFTA_LIMIT_RATE, uint64(x.Rate))
	e.Uint64(unix.NFTA_LIMIT_UNIT, 1)
	numbers(e, unix.NFTA_LIMIT_BURST, x.Burst, unix.NFT_LIMIT_PKTS, 0)
	return "limit"
}

// NamedCounter counts in an object of the table.
type NamedCounter struct{ Name string }

func (x *NamedCounter) encode(e *attr.Encoder) string {
	e.Uint32(unix.NFTA_OBJREF_IMM_TYPE, unix.NFT_OBJECT_COUNTER)
	e.Data(unix.NFTA_OBJREF_IMM_NAME, []byte(x.Name))
	return "objref"
}

// FlowOffload adds the connection to a flowtable.
type FlowOffload struct{ Name string }

func (x *FlowOffload) encode(e *attr.Encoder) string {
	e.Data(1, []byte(x.Name)) // NFTA_FLOW_TABLE_NAME
	return "flow_offload"
}

// DestinationNAT translates the destination of a connection.
type DestinationNAT struct{ Family, RegAddrMin, RegProtoMin uint32 }

func (x *DestinationNAT) encode(e *attr.Encoder) string {
	numbers(e, unix.NFTA_NAT_TYPE, unix.NFT_NAT_DNAT, x.Family, x.RegAddrMin)
	e.Uint32(unix.NFTA_NAT_REG_PROTO_MIN, x.RegProtoMin)
	e.Uint32(unix.NFTA_NAT_FLAGS, unix.NF_NAT_RANGE_PROTO_SPECIFIED)
	return "nat"
}

// Masq translates the source to an address of the outgoing interface.
type Masq struct{ FullyRandom bool }

func (x *Masq) encode(e *attr.Encoder) string {
	if x.FullyRandom {
		e.Uint32(unix.NFTA_MASQ_FLAGS, unix.NF_NAT_RANGE_PROTO_RANDOM_FULLY)
	}
	return "masq"
}

// Reject drops the packet and sends an error.
type Reject struct {
	Type uint32
	Code uint8
}

func (x *Reject) encode(e *attr.Encoder) string {
	e.Uint32(unix.NFTA_REJECT_TYPE, x.Type)
	e.Uint8(unix.NFTA_REJECT_ICMP_CODE, x.Code)
	return "reject"
}

// Verdicts of packets (include/uapi/linux/netfilter.h), next to NFT_RETURN, NFT_GOTO and NFT_JUMP.
const (
	Drop   = 0
	Accept = 1
)

// Verdict ends the rule, and the chain or the hook.
type Verdict struct {
	Kind  int32
	Chain string // for NFT_GOTO and NFT_JUMP
}

func (x *Verdict) encode(e *attr.Encoder) string {
	e.Uint32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
	data := e.OpenNested(unix.NFTA_IMMEDIATE_DATA)
	verdict := e.OpenNested(unix.NFTA_DATA_VERDICT)
	e.Uint32(unix.NFTA_VERDICT_CODE, uint32(x.Kind))
	if x.Chain != "" {
		e.String(unix.NFTA_VERDICT_CHAIN, x.Chain)
	}
	e.Close(verdict)
	e.Close(data)
	return "immediate"
}

// numbers appends attributes of one kind after the other.
func numbers(e *attr.Encoder, kind uint16, values ...uint32) {
	for i, n := range values {
		e.Uint32(kind+uint16(i), n)
	}
}

// value appends an attribute with bytes of a register.
func value(e *attr.Encoder, kind uint16, data []byte) {
	at := e.OpenNested(kind)
	e.Data(unix.NFTA_DATA_VALUE, data)
	e.Close(at)
}

func choose[T any](condition bool, yes, no T) T {
	if condition {
		return yes
	}
	return no
}
