package simulate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

// A verdict is the result of an expression or a chain.
type verdict struct {
	kind  expr.VerdictKind
	chain string
}

var (
	verdictContinue = verdict{kind: expr.VerdictContinue}
	verdictBreak    = verdict{kind: expr.VerdictBreak} // the rule does not match
)

func matchVerdict(ok bool) verdict {
	if ok {
		return verdictContinue
	}
	return verdictBreak
}

func (w *walk) evaluate(e any) (verdict, error) {
	switch e := e.(type) {
	case Extension:
		return e.run(w)
	case UnknownExpression:
		return verdictBreak, undecidedError(e.Name)
	case NoEffect:
		return verdictContinue, nil
	}
	switch k := kindsByType[reflect.TypeOf(e)]; {
	case k == nil:
		return verdictBreak, undecidedError(fmt.Sprintf("%T", e))
	case k.run == nil:
		return verdictContinue, nil
	default:
		return k.run(w, e)
	}
}

func (w *walk) immediate(e *expr.Immediate) (verdict, error) {
	return verdictContinue, w.regs.load(e.Register, known(e.Data))
}

func (w *walk) verdict(e *expr.Verdict) (verdict, error) { return verdict{e.Kind, e.Chain}, nil }

func (w *walk) notrack() (verdict, error) {
	if !w.conn.known {
		w.conn.untracked = true
	}
	return verdictContinue, nil
}

// objref refers to an object (NFT_OBJECT_*). Some only count, or only configure connection
// tracking: counters, helpers, timeouts, expectations. Others may give a verdict.
func (w *walk) objref(e *expr.Objref) (verdict, error) {
	const counter, helper, timeout, secmark, expectation = 1, 3, 7, 8, 9
	if slices.Contains([]int{counter, helper, timeout, secmark, expectation}, e.Type) {
		return verdictContinue, nil
	}
	return verdictBreak, undecidedError("objref")
}

const unknownContent = "the content of the packet is unknown"

func (w *walk) compare(e *expr.Cmp) (verdict, error) {
	if ok, decided := w.regs.bounds.compare(e); decided {
		return matchVerdict(ok), nil
	}
	content, err := w.regs.readKnown(e.Register, len(e.Data), unknownContent)
	if err != nil {
		return verdictBreak, err
	}
	c := bytes.Compare(content, e.Data)
	if int(e.Op) >= len(operators) {
		return verdictBreak, undecidedError("an unknown comparison")
	}
	ok := holds(e.Op, c)
	w.noteComparison(e, ok)
	return matchVerdict(ok), nil
}

func (w *walk) inRange(e *expr.Range) (verdict, error) {
	content, err := w.regs.readKnown(e.Register, len(e.FromData), unknownContent)
	if err != nil {
		return verdictBreak, err
	}
	in := bytes.Compare(content, e.FromData) >= 0 && bytes.Compare(content, e.ToData) <= 0
	return matchVerdict(in == (e.Op == expr.CmpOpEq)), nil
}

func (w *walk) bitwise(e *expr.Bitwise) (verdict, error) {
	from, err := w.regs.read(e.SourceRegister, int(e.Len))
	if err != nil {
		return verdictBreak, err
	}
	if len(e.Mask) != int(e.Len) || len(e.Xor) != int(e.Len) {
		return verdictBreak, undecidedError("bitwise of another kind")
	}
	to := value{bytes: make([]byte, e.Len), unknown: make([]byte, e.Len)}
	for i := range to.bytes {
		to.bytes[i] = from.bytes[i]&e.Mask[i] ^ e.Xor[i]
		to.unknown[i] = from.unknown[i] & e.Mask[i]
	}
	w.reason.mask = e.Mask
	return verdictContinue, w.regs.load(e.DestRegister, to)
}

var isLittleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

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
	to, bounds := value{slices.Clone(from.bytes), slices.Clone(from.unknown)}, w.regs.bounds
	if isLittleEndian {
		for i := 0; i < n; i += size {
			slices.Reverse(to.bytes[i : i+size])
			slices.Reverse(to.unknown[i : i+size])
		}
	}
	err = w.regs.load(e.DestRegister, to)
	if bounds.isOf(e.SourceRegister, size) && n == size {
		w.regs.bounds = bounds
		w.regs.bounds.register, w.regs.bounds.native = e.DestRegister, !bounds.native
	}
	return verdictContinue, err
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

const exthdrSCTP expr.ExthdrOp = 3
