package nft

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Bits of conntrack's state and status as the kernel numbers them
// (include/uapi/linux/netfilter/nf_conntrack_common.h).
const (
	ctStateInvalid    = 1 << 0 // NF_CT_STATE_INVALID_BIT
	ctStateNew        = 1 << 3 // NF_CT_STATE_BIT(IP_CT_NEW)
	ctStatusAssured   = 1 << 2 // IPS_ASSURED
	ctStatusConfirmed = 1 << 3 // IPS_CONFIRMED
	ctStatusDstNAT    = 1 << 5 // IPS_DST_NAT
)

// newConnection matches packets that open a connection.
func newConnection() Statement { return ctState("new", ctStateNew) }

// invalid matches packets that connection tracking cannot assign to a connection.
func invalid() Statement { return ctState("invalid", ctStateInvalid) }

func ctState(name string, bit uint32) Statement {
	load := &expr.Ct{Key: expr.CtKeySTATE, Register: regValue}
	return Statement{Text: "ct state " + name, Expressions: append([]any{load}, anyBit(bit)...)}
}

// translated matches connections whose destination was translated.
func translated() Statement { return ctStatus("dnat", ctStatusDstNAT, expr.CmpOpNeq) }

// confirmed matches connections that a packet has opened before this one.
func confirmed() Statement { return ctStatus("confirmed", ctStatusConfirmed, expr.CmpOpNeq) }

// notConfirmed matches packets of connections before the first one has passed the last hook.
func notConfirmed() Statement { return ctStatus("! confirmed", ctStatusConfirmed, expr.CmpOpEq) }

// notTranslated matches connections whose destination was not translated.
func notTranslated() Statement { return ctStatus("! dnat", ctStatusDstNAT, expr.CmpOpEq) }

// notAssured matches connections that are not established.
func notAssured() Statement { return ctStatus("! assured", ctStatusAssured, expr.CmpOpEq) }

// ctStatus compares a bit of the status with zero.
func ctStatus(text string, bit uint32, op expr.CmpOp) Statement {
	load := &expr.Ct{Key: expr.CtKey(unix.NFT_CT_STATUS), Register: regValue}
	bits := anyBit(bit)
	bits[1] = &expr.Cmp{Op: op, Register: regValue, Data: native(0)}
	return Statement{Text: "ct status " + text, Expressions: append([]any{load}, bits...)}
}

// labelBytes is the length of a connection's label (NF_CT_LABELS_MAX_SIZE).
const labelBytes = 16

// label returns a label with one bit, as the kernel keeps it in a register.
func label(bit uint) []byte {
	b := make([]byte, labelBytes)
	const word = 8 // bytes: labels are an array of longs
	binary.NativeEndian.PutUint64(b[bit/64*word:], 1<<(bit%64))
	return b
}

// labelled matches packets of connections that have a bit in their label.
func labelled(bit uint) Statement {
	return Statement{Text: fmt.Sprintf("ct label %d", bit), Expressions: []any{
		&expr.Ct{Key: expr.CtKeyLABELS, Register: regValue},
		&expr.Bitwise{
			SourceRegister: regValue, DestRegister: regValue, Len: labelBytes, Mask: label(bit),
			Xor: make([]byte, labelBytes),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: regValue, Data: make([]byte, labelBytes)},
	}}
}

// setLabel sets a bit in the label of the packet's connection. The kernel keeps the other
// bits (nft_ct_set_eval).
func setLabel(bit uint) Statement {
	return Statement{Text: fmt.Sprintf("ct label set %d", bit), Expressions: []any{
		&expr.Immediate{Register: regValue, Data: label(bit)},
		&expr.Ct{Key: expr.CtKeyLABELS, SourceRegister: true, Register: regValue},
	}}
}
