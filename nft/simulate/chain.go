package simulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables/expr"
)

// place is where on its way a packet is.
type place struct {
	base   Base
	chain  Chain
	handle uint64
}

// ours reports whether the place is in a table of ours.
func (p place) ours() bool { return p.chain.Table.Name == tableName && p.chain.Table.Family != "inet" }

// String is "table ip kube-vmap, chain lb-3".
func (p place) String() string {
	s := fmt.Sprintf("table %s, chain %s", p.chain.Table, p.chain.Name)
	if p.handle != 0 {
		s += fmt.Sprintf(", rule handle %d", p.handle)
	}
	return s
}

// jumps is how deep chains may jump (NFT_JUMP_STACK_SIZE).
const jumps = 16

// frameOf is where to go on when a chain that was jumped to ends.
type frameOf struct {
	chain Chain
	next  int
}

// base runs a base chain (nft_do_chain) and says whether the packet goes on.
func (w *way) base(b Base) (accepted bool, err error) {
	w.place = place{base: b, chain: b.Chain}
	var stack []frameOf
	here := frameOf{chain: b.Chain}
	for {
		rules, err := w.rulesOf(here.chain)
		if err != nil {
			return false, err
		}
		if w.enter(here, rules); here.next >= len(rules) {
			if len(stack) == 0 {
				return w.policy(b), nil
			}
			here, stack = stack[len(stack)-1], stack[:len(stack)-1]
			continue
		}
		v, err := w.rule(rules[here.next])
		here.next++
		if err != nil {
			return false, err
		}
		switch v.kind {
		case expr.VerdictBreak, expr.VerdictContinue:
		case expr.VerdictReturn:
			here.next = len(rules)
		case expr.VerdictJump:
			if len(stack) == jumps {
				return false, errors.New("chains jump too deep")
			}
			stack = append(stack, here)
			here = frameOf{chain: Chain{b.Chain.Table, v.chain}}
		case expr.VerdictGoto:
			here = frameOf{chain: Chain{b.Chain.Table, v.chain}}
		default:
			return w.decide(v)
		}
	}
}

// decide ends the way through a base chain.
func (w *way) decide(v verdict) (bool, error) {
	switch v.kind {
	case expr.VerdictAccept:
		return true, nil
	case expr.VerdictDrop:
		w.dropped()
		return false, nil
	}
	return false, unsaidError("the packet is handed to a program (queue)")
}

// policy is what happens to packets that no rule decides.
func (w *way) policy(b Base) bool {
	w.place = place{base: b, chain: b.Chain}
	if b.Drops {
		w.reason = reason{text: "no rule decides, and the policy is drop"}
		w.dropped()
	}
	return !b.Drops
}

// enter notes what is wrong with a chain of ours that the packet comes to.
func (w *way) enter(here frameOf, rules []Rule) {
	w.place.chain, w.place.handle = here.chain, 0
	if len(rules) == 0 && w.place.ours() {
		w.fault(fmt.Sprintf("chain %s has no rules", here.chain.Name))
	}
}

// rule runs the expressions of a rule, if anything may come of it. What cannot be said of another program's rule
// is a doubt if the rule might decide something, and then it counts as one that does
// not match.
func (w *way) rule(r Rule) (verdict, error) {
	w.place.handle = r.Handle
	if !w.place.ours() && !matters(r) {
		return goesOn, nil
	}
	w.regs, w.reason = registers{}, reason{}
	for i, e := range r.Expressions {
		v, err := w.next(r.Expressions[i:])
		var unsaid unsaidError
		switch {
		case errors.As(err, &unsaid) && !w.place.ours():
			w.doubt(r, unsaid)
			return breaks, nil
		case err != nil:
			return breaks, w.wrap(err)
		case v.kind == expr.VerdictBreak:
			w.unmatched()
			return v, nil
		case v.kind != expr.VerdictContinue:
			w.left(e, v)
			return v, nil
		}
	}
	return goesOn, nil
}

// next runs the first of a rule's expressions that are left. A pick of another program is
// not made if something behind it is not understood: whatever it came to, the rule would
// be a doubt.
func (w *way) next(list []any) (verdict, error) {
	if !w.place.ours() && picks(list[0]) {
		if i := slices.IndexFunc(list, func(e any) bool { _, unknown := e.(Unknown); return unknown }); i > 0 {
			return w.statement(list[i])
		}
	}
	return w.evaluate(list[0])
}

// wrap says of an error where it was met.
func (w *way) wrap(err error) error { return fmt.Errorf("%s: %w", w.place, err) }

// matters reports whether anything may come of a rule, now or in a rule behind it that
// finds what this one enters into a set. Others count and log: what they pick need not be
// picked.
func matters(r Rule) bool {
	return decisive(r) || slices.ContainsFunc(r.Expressions, func(e any) bool {
		_, enters := e.(*expr.Dynset)
		return enters
	})
}

// decisive reports whether a rule may decide what becomes of a packet, or changes
// something by which others do.
func decisive(r Rule) bool {
	for _, e := range r.Expressions {
		switch e := e.(type) {
		case *expr.Verdict, *expr.NAT, *expr.Masq, *expr.Redir, *expr.Reject, *expr.Notrack:
			return true
		case Unknown:
			if !e.onlyMatches() {
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
