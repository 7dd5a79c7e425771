package simulate

import (
	"encoding/binary"
	"slices"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

// An Arithmetic shifts a register, or combines two of them (NFT_BITWISE_*).
type Arithmetic struct {
	Op           uint32
	Source, Dest uint32
	Other        uint32 // a register; zero for Data
	Len          uint32
	Data         []byte // the second operand
	Shift        uint32
}

// Operations of an [Arithmetic].
const (
	opShiftLeft = 1 + iota
	opShiftRight
	opAnd
	opOr
	opXor
)

// byteorder does not change bytes behind the last whole number (nft_byteorder_eval).
func (w *walk) byteorder(e *expr.Byteorder) (verdict, error) {
	if e.Size == 0 || e.Len < e.Size {
		return verdictContinue, nil
	}
	size, n := int(e.Size), int(e.Len-e.Len%e.Size)
	from, err := w.regs.read(e.SourceRegister, n)
	if err != nil {
		return verdictBreak, err
	}
	to := value{slices.Clone(from.bytes), slices.Clone(from.unknown)}
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		for i := 0; i < n; i += size {
			slices.Reverse(to.bytes[i : i+size])
			slices.Reverse(to.unknown[i : i+size])
		}
	}
	return verdictContinue, w.regs.load(e.DestRegister, to)
}

// arithmetic computes with words of 4 bytes, of which the first is the highest for shifts
// (nft_bitwise_eval_lshift).
func (w *walk) arithmetic(e *Arithmetic) (verdict, error) {
	from, err := w.regs.read(e.Source, int(e.Len))
	if err != nil {
		return verdictBreak, err
	}
	other := known(e.Data)
	if e.Other != 0 {
		if other, err = w.regs.read(e.Other, int(e.Len)); err != nil {
			return verdictBreak, err
		}
	}
	switch {
	case !from.isKnown() || !other.isKnown():
		return verdictContinue, w.regs.load(e.Dest, unknownValue(int(e.Len)))
	case e.Op == opShiftLeft || e.Op == opShiftRight:
		return verdictContinue, w.regs.load(e.Dest, known(shifted(from.bytes, e.Op, e.Shift)))
	case len(other.bytes) != len(from.bytes):
		return verdictBreak, undecidedError("bitwise of another kind")
	}
	out := slices.Clone(from.bytes)
	for i, b := range other.bytes {
		switch e.Op {
		case opAnd:
			out[i] &= b
		case opOr:
			out[i] |= b
		case opXor:
			out[i] ^= b
		}
	}
	return verdictContinue, w.regs.load(e.Dest, known(out))
}

// shifted shifts words, each of which is in the byte order of the machine.
func shifted(b []byte, op, n uint32) []byte {
	words := (len(b) + 3) / 4
	in, out := make([]byte, 4*words), make([]byte, 4*words)
	copy(in, b)
	word := func(i int) uint32 { return binary.NativeEndian.Uint32(in[4*i:]) }
	for i := range words {
		v := word(i)
		switch {
		case op == opShiftLeft:
			if v <<= n; i+1 < words {
				v |= word(i+1) >> (32 - n)
			}
		case op == opShiftRight:
			if v >>= n; i > 0 {
				v |= word(i-1) << (32 - n)
			}
		}
		binary.NativeEndian.PutUint32(out[4*i:], v)
	}
	return out[:len(b)]
}

// exthdr loads from an extension header of IPv6, or an option of IPv4, which packets do not
// have, or from an option of TCP or a chunk of SCTP, which is not known.
func (w *walk) exthdr(e *expr.Exthdr) (verdict, error) {
	if e.DestRegister == 0 {
		return verdictContinue, nil // it changes an option, which no rule here matches
	}
	const present = 1 // NFT_EXTHDR_F_PRESENT
	owner := map[expr.ExthdrOp]model.Protocol{expr.ExthdrOpTcpopt: model.TCP, exthdrSCTP: model.SCTP}
	protocol, ofTransport := owner[e.Op]
	switch {
	case ofTransport && protocol == w.frame.protocol:
		return verdictContinue, w.regs.load(e.DestRegister, unknownValue(max(4, int(e.Len))))
	case e.Flags&present != 0:
		return verdictContinue, w.regs.load(e.DestRegister, known(nativeBytes(0)))
	}
	return verdictBreak, nil
}

// exthdrSCTP is NFT_EXTHDR_OP_SCTP.
const exthdrSCTP expr.ExthdrOp = 3
