package simulate

import (
	"bytes"
	"slices"

	"github.com/google/nftables/expr"

	"kube-vmap/nft/simulate/xt"
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

// matchVerdict continues if the packet matches.
func matchVerdict(ok bool) verdict {
	if ok {
		return verdictContinue
	}
	return verdictBreak
}

// evaluate runs one expression.
func (w *walk) evaluate(e any) (verdict, error) {
	switch e := e.(type) {
	case *expr.Payload:
		return w.payload(e)
	case *expr.Meta:
		return w.meta(e)
	case *expr.Ct:
		return w.ct(e)
	case *expr.Cmp:
		return w.compare(e)
	case *expr.Range:
		return w.inRange(e)
	case *expr.Bitwise:
		return w.bitwise(e)
	case *expr.Immediate:
		return verdictContinue, w.regs.load(e.Register, known(e.Data))
	case *expr.Verdict:
		return verdict{e.Kind, e.Chain}, nil
	case *expr.Lookup:
		return w.lookup(e)
	case *expr.Dynset:
		return w.dynset(e)
	case *expr.Numgen:
		return w.numgen(e)
	case *expr.Hash:
		return w.hash(e)
	case *expr.Fib:
		return w.fib(e)
	case *expr.Socket:
		return w.socket(e)
	case *expr.Exthdr:
		return w.exthdr(e)
	case Byteorder:
		return w.byteorder(e)
	case Arithmetic:
		return w.arithmetic(e)
	}
	if isXTMatch(e) {
		return w.xtMatch(e)
	}
	return w.statement(e)
}

// statement runs an expression that has an effect.
func (w *walk) statement(e any) (verdict, error) {
	switch e := e.(type) {
	case *expr.NAT:
		return w.nat(e)
	case *expr.Masq:
		return w.masquerade()
	case *expr.Redir:
		return w.redirect(e)
	case *expr.Reject:
		return w.reject(e), nil
	case *expr.Counter, *expr.Log, *expr.FlowOffload:
		return verdictContinue, nil
	case *expr.Notrack:
		if !w.conn.known {
			w.conn.untracked = true
		}
		return verdictContinue, nil
	case xt.NoEffect, xt.Comment:
		return verdictContinue, nil
	case *expr.Objref:
		if objectHasNoEffect(e.Type) {
			return verdictContinue, nil
		}
		return verdictBreak, undecidedError("objref")
	case *expr.Queue:
		return w.queue(xt.Queue{From: e.Num, To: e.Num + max(e.Total, 1) - 1, Bypass: e.Flag&expr.QueueFlagBypass != 0})
	case TransparentProxy:
		return w.nativeProxy(e)
	case UnknownExpression:
		return verdictBreak, undecidedError(e.Name)
	}
	return w.xtTarget(e)
}

// objectHasNoEffect reports whether objects of a type only count, or only say what connection
// tracking notes: counters, helpers, timeouts, expectations. Others may give a verdict
// (NFT_OBJECT_*).
func objectHasNoEffect(kind int) bool {
	const counter, helper, timeout, secmark, expectation = 1, 3, 7, 8, 9
	return slices.Contains([]int{counter, helper, timeout, secmark, expectation}, kind)
}

func (w *walk) compare(e *expr.Cmp) (verdict, error) {
	v, err := w.regs.read(e.Register, len(e.Data))
	if err != nil {
		return verdictBreak, err
	}
	if !v.isKnown() {
		return verdictBreak, undecidedError("the content of the packet is unknown")
	}
	ok, found := holds(e, v.bytes)
	if !found {
		return verdictBreak, undecidedError("an unknown comparison")
	}
	w.noteComparison(e, ok)
	return matchVerdict(ok), nil
}

// holds reports whether the comparison of a register's content is true, and whether its
// operator is known.
func holds(e *expr.Cmp, content []byte) (ok, found bool) {
	c := bytes.Compare(content, e.Data)
	switch e.Op {
	case expr.CmpOpEq:
		return c == 0, true
	case expr.CmpOpNeq:
		return c != 0, true
	case expr.CmpOpLt:
		return c < 0, true
	case expr.CmpOpLte:
		return c <= 0, true
	case expr.CmpOpGt:
		return c > 0, true
	case expr.CmpOpGte:
		return c >= 0, true
	}
	return false, false
}

func (w *walk) inRange(e *expr.Range) (verdict, error) {
	v, err := w.regs.read(e.Register, len(e.FromData))
	if err != nil {
		return verdictBreak, err
	}
	if !v.isKnown() || len(e.FromData) != len(e.ToData) {
		return verdictBreak, undecidedError("the content of the packet is unknown")
	}
	return matchVerdict(inside(e, v.bytes)), nil
}

// inside reports whether a register's content matches the range.
func inside(e *expr.Range, content []byte) bool {
	in := bytes.Compare(content, e.FromData) >= 0 && bytes.Compare(content, e.ToData) <= 0
	return in == (e.Op == expr.CmpOpEq)
}

func (w *walk) bitwise(e *expr.Bitwise) (verdict, error) {
	from, err := w.regs.read(e.SourceRegister, int(e.Len))
	if err != nil {
		return verdictBreak, err
	}
	if len(e.Mask) != int(e.Len) || len(e.Xor) != int(e.Len) {
		return verdictBreak, undecidedError("bitwise of another kind")
	}
	to := value{bytes: make([]byte, e.Len), unknown: make([]bool, e.Len)}
	for i := range to.bytes {
		to.bytes[i] = from.bytes[i]&e.Mask[i] ^ e.Xor[i]
		to.unknown[i] = from.unknown[i] && e.Mask[i] != 0
	}
	w.reason.mask = e.Mask
	return verdictContinue, w.regs.load(e.DestRegister, to)
}
