package simulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables/expr"

	"kube-vmap/nft/foreign/simulate/path"
)

// A position is where a packet is on its path.
type position struct {
	base  BaseChain
	chain Chain
	own   bool // the table is one of the caller's own
	rule  Rule
}

// String returns the position as in "table ip filter, chain INPUT, rule handle 3".
func (p position) String() string { return p.ref().String() }

func (p position) ref() path.RuleRef {
	return path.RuleRef{Table: p.chain.Table.String(), Chain: p.chain.Name, Rule: p.rule.Handle}
}

// maxJumps is how deep chains may jump (NFT_JUMP_STACK_SIZE).
const maxJumps = 16

// A returnPoint is where to continue when a chain that was jumped to ends.
type returnPoint struct {
	chain Chain
	next  int
}

// runBaseChain passes a base chain. After one of type route, the packet is routed again if it
// changed what routing looks at (nf_route_table_hook4).
func (w *walk) runBaseChain(b BaseChain) (accepted bool, err error) {
	if b.Type == "route" {
		before := w.clone()
		defer func() {
			w.rerouted = w.rerouted || !w.frame.equals(&before.frame)
		}()
	}
	w.position = position{base: b, chain: b.Chain, own: w.owns(b.Table)}
	var stack []returnPoint
	here := returnPoint{chain: b.Chain}
	for {
		list, err := w.rulesOf(here.chain)
		if err != nil {
			return false, err
		}
		rules := list.rules
		if list.sources != nil {
			here.next = list.next(here.next, w.frame.source().Addr(), w.frame.destination())
		}
		if w.enter(here.chain, rules); here.next >= len(rules) {
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

// applyPolicy handles a packet that no rule of a base chain decided.
func (w *walk) applyPolicy(b BaseChain) bool {
	w.position = position{base: b, chain: b.Chain, own: w.owns(b.Table)}
	if b.Drop {
		w.reason = reason{text: "no rule decides, and the policy is drop"}
		w.noteDropped()
	}
	return !b.Drop
}

// enter makes a chain the position, and reports one of the caller's that is empty.
func (w *walk) enter(c Chain, rules []Rule) {
	w.position.rule, w.position.chain = Rule{}, c
	if len(rules) == 0 && w.position.own {
		w.report(EventEmpty, "", Event{})
	}
}

// runRule runs the expressions of a rule. If it cannot be decided whether a rule of another
// program matches, both cases are tried. An unknown effect is a doubt, and the rule counts as
// one that does not match.
func (w *walk) runRule(r Rule) (verdict, error) {
	w.position.rule = r
	w.regs, w.reason = registers{}, reason{}
	assumed, undecided := false, undecidedError("")
	for i, e := range r.Expressions {
		v, err := w.runExpression(r.Expressions[i:])
		switch {
		case errors.As(err, &undecided) && !w.position.own:
			if assumed = w.assumeMatch(r, e, undecided, assumed); !assumed {
				return verdictBreak, nil
			}
		case err != nil:
			return verdictBreak, fmt.Errorf("%s: %w", w.position, err)
		case v.kind == expr.VerdictBreak:
			if w.position.own && w.reason.text != "" {
				w.report(EventNoMatch, "", Event{})
			}
			return v, nil
		case v.kind != expr.VerdictContinue:
			if _, direct := e.(*expr.Verdict); direct && v.chain != "" {
				w.report(path.StepJump, "goto "+v.chain, Event{Target: v.chain})
			}
			return v, nil
		}
	}
	return verdictContinue, nil
}

// assumeMatch reports whether to assume on this walk that an undecided expression matches.
// Each rule has one such assumption, however many of its expressions are undecided.
func (w *walk) assumeMatch(r Rule, e any, why undecidedError, already bool) bool {
	computes, _ := effects(e)
	switch {
	case !hasEffect(r):
		return false
	case !computes:
		w.addDoubt(why)
		return false
	case !already && !w.assume(w.doubt(why)):
		return false
	}
	for i := range w.regs.unknown {
		w.regs.unknown[i] = 0xff // e may have loaded some
	}
	return true
}

// runExpression runs the first of the remaining expressions of a rule. If another program's
// rule has an unknown expression behind a pick, the pick is not made: whatever its result,
// it is not decided whether the rule matches.
func (w *walk) runExpression(list []any) (verdict, error) {
	if !w.position.own && isPick(list[0]) {
		if i := slices.IndexFunc(list, func(e any) bool { _, unknown := e.(UnknownExpression); return unknown }); i > 0 {
			return w.evaluate(list[i])
		}
	}
	return w.evaluate(list[0])
}
