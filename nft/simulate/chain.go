package simulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables/expr"
)

// position is where on its way a packet is.
type position struct {
	base   BaseChain
	chain  Chain
	handle uint64
}

// checkTable reports whether the place is in a table of ours.
func (p position) isOurs() bool {
	return p.chain.Table.Name == tableName && p.chain.Table.Family != "inet"
}

// String is "table ip kube-vmap, chain lb-3".
func (p position) String() string {
	s := fmt.Sprintf("table %s, chain %s", p.chain.Table, p.chain.Name)
	if p.handle != 0 {
		s += fmt.Sprintf(", rule handle %d", p.handle)
	}
	return s
}

// maxJumps is how deep chains may jump (NFT_JUMP_STACK_SIZE).
const maxJumps = 16

// returnPoint is where to go on when a chain that was jumped to ends.
type returnPoint struct {
	chain Chain
	next  int
}

// runBaseChain runs a base chain (nft_do_chain) and says whether the packet goes on.
func (w *walk) runBaseChain(b BaseChain) (accepted bool, err error) {
	w.place = position{base: b, chain: b.Chain}
	var stack []returnPoint
	here := returnPoint{chain: b.Chain}
	for {
		rules, err := w.rulesOf(here.chain)
		if err != nil {
			return false, err
		}
		if w.checkChain(here, rules); here.next >= len(rules) {
			if len(stack) == 0 {
				return w.applyPolicy(b), nil
			}
			here, stack = stack[len(stack)-1], stack[:len(stack)-1]
			continue
		}
		v, err := w.runRule(rules[here.next])
		here.next++
		if err != nil {
			return false, err
		}
		switch v.kind {
		case expr.VerdictBreak, expr.VerdictContinue:
		case expr.VerdictReturn:
			here.next = len(rules)
		case expr.VerdictJump:
			if len(stack) == maxJumps {
				return false, errors.New("chains jump too deep")
			}
			stack = append(stack, here)
			here = returnPoint{chain: Chain{b.Chain.Table, v.chain}}
		case expr.VerdictGoto:
			here = returnPoint{chain: Chain{b.Chain.Table, v.chain}}
		default:
			return w.finish(v)
		}
	}
}

// finish ends the way through a base chain.
func (w *walk) finish(v verdict) (bool, error) {
	switch v.kind {
	case expr.VerdictAccept:
		return true, nil
	case expr.VerdictDrop:
		w.noteDropped()
		return false, nil
	}
	return false, undecidedError("the packet is handed to a program (queue)")
}

// applyPolicy is what happens to packets that no rule decides.
func (w *walk) applyPolicy(b BaseChain) bool {
	w.place = position{base: b, chain: b.Chain}
	if b.PolicyDrop {
		w.reason = reason{text: "no rule decides, and the policy is drop"}
		w.noteDropped()
	}
	return !b.PolicyDrop
}

// checkChain notes what is wrong with a chain of ours that the packet comes to.
func (w *walk) checkChain(here returnPoint, rules []Rule) {
	w.place.chain, w.place.handle = here.chain, 0
	if len(rules) == 0 && w.place.isOurs() {
		w.addFault(fmt.Sprintf("chain %s has no rules", here.chain.Name))
	}
}

// runRule runs the expressions of a rule, if anything may come of it. What cannot be said of another program's rule
// is a doubt if the rule might decide something, and then it counts as one that does
// not match.
func (w *walk) runRule(r Rule) (verdict, error) {
	w.place.handle = r.Handle
	if !w.place.isOurs() && !hasEffect(r) {
		return verdictContinue, nil
	}
	w.regs, w.reason = registers{}, reason{}
	for i, e := range r.Expressions {
		v, err := w.runExpression(r.Expressions[i:])
		var undecided undecidedError
		switch {
		case errors.As(err, &undecided) && !w.place.isOurs():
			w.addDoubt(r, undecided)
			return verdictBreak, nil
		case err != nil:
			return verdictBreak, w.withPosition(err)
		case v.kind == expr.VerdictBreak:
			w.noteNoMatch()
			return v, nil
		case v.kind != expr.VerdictContinue:
			w.noteJump(e, v)
			return v, nil
		}
	}
	return verdictContinue, nil
}

// runExpression runs the first of a rule's expressions that are left. A pick of another program is
// not made if something behind it is not understood: whatever it came to, the rule would
// be a doubt.
func (w *walk) runExpression(list []any) (verdict, error) {
	if !w.place.isOurs() && isPick(list[0]) {
		if i := slices.IndexFunc(list, func(e any) bool { _, unknown := e.(UnknownExpression); return unknown }); i > 0 {
			return w.statement(list[i])
		}
	}
	return w.evaluate(list[0])
}

// withPosition says of an error where it was met.
func (w *walk) withPosition(err error) error { return fmt.Errorf("%s: %w", w.place, err) }

// hasEffect reports whether anything may come of a rule, now or in a rule behind it that
// finds what this one enters into a set. Others count and log: what they pick need not be
// picked.
func hasEffect(r Rule) bool {
	return mayDecide(r) || slices.ContainsFunc(r.Expressions, func(e any) bool {
		_, enters := e.(*expr.Dynset)
		return enters
	})
}

// mayDecide reports whether a rule may decide what becomes of a packet, or changes
// something by which others do.
func mayDecide(r Rule) bool {
	for _, e := range r.Expressions {
		switch e := e.(type) {
		case *expr.Verdict, *expr.NAT, *expr.Masq, *expr.Redir, *expr.Reject, *expr.Notrack:
			return true
		case UnknownExpression:
			if !e.isMatchOnly() {
				return true
			}
		case *expr.Lookup:
			if e.IsDestRegSet && e.DestRegister == 0 {
				return true
			}
		case *expr.Meta:
			if e.SourceRegister && e.Key == expr.MetaKeyMARK {
				return true
			}
		case *expr.Ct:
			if e.SourceRegister && (e.Key == expr.CtKeyZONE || e.Key == expr.CtKeyMARK) {
				return true
			}
		case *expr.Payload:
			if e.OperationType == expr.PayloadWrite {
				return true
			}
		}
	}
	return false
}
