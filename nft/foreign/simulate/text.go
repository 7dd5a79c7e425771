package simulate

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/google/nftables/expr"
)

// Text returns the rule in the syntax of nft, given the family of its table. A rule is a list of
// expressions that pass values to each other in registers, which are interpreted with text in
// place of values:
//
//	payload load 4b @ network header + 16 => reg 1     reg 1 = "ip daddr"
//	cmp eq reg 1 0x0a60000a                             ip daddr 10.96.0.10
//	immediate reg 0 drop                                drop
//
// For our own rules the result is what nft lists, except for the elements of anonymous maps,
// which are in another message. For rules of other programs it is enough to find them: what
// is not understood appears by its name, and so do the matches and targets of iptables, which
// nft cannot print either.
func (r Rule) Text(family string) string {
	w := &ruleWriter{family: family, registers: map[int]operand{}}
	for _, e := range r.Expressions {
		w.expression(e)
	}
	return Printable(strings.Join(w.words, " "))
}

// Printable returns a string that another program chose, with question marks for characters
// that could mislead a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\uFFFD' {
			return '?'
		}
		return r
	}, s)
}

type ruleWriter struct {
	family    string
	registers map[int]operand
	words     []string
	// protocol is the transport protocol that the rule has matched, and protocolAt the
	// position of that match in words, from 1.
	protocol   string
	protocolAt int
}

type operand struct {
	text     string
	form     form
	length   uint32 // bytes; zero if not known
	data     []byte // of a constant
	mask     []byte // after a bitwise expression, with xor
	xor      []byte
	fromMap  bool
	protocol bool // the transport protocol
}

func (w *ruleWriter) write(words ...string) { w.words = append(w.words, words...) }

func (w *ruleWriter) expression(e any) {
	switch e := e.(type) {
	case Extension:
		w.write(e.optionText()...)
		return
	case UnknownExpression:
		w.write(cmp.Or(e.Text, "("+e.Name+")"))
		return
	case NoEffect:
		w.write("(" + e.Name + ")")
		return
	}
	switch k := kindsByType[reflect.TypeOf(e)]; {
	case k == nil:
		w.write("(unknown)")
	case k.text == nil:
		w.write("(" + k.name + ")")
	default:
		k.text(w, e)
	}
}

func (w *ruleWriter) set(register uint32, v operand) {
	if at, err := registerOffset(register); err == nil {
		w.registers[at] = v
	}
}

// take returns the value of a register and clears it, because a value is used once.
func (w *ruleWriter) take(register uint32) operand {
	at, err := registerOffset(register)
	v, known := w.registers[at]
	if err != nil || !known {
		return operand{text: "(unknown)"}
	}
	delete(w.registers, at)
	return v
}

// takeAll takes the values of adjacent registers, and returns them as a concatenation.
func (w *ruleWriter) takeAll(register uint32) string {
	var parts []string
	for at, err := registerOffset(register); err == nil; {
		v, known := w.registers[at]
		if !known {
			break
		}
		delete(w.registers, at)
		parts = append(parts, v.String())
		if v.length == 0 {
			break
		}
		at += int(v.length+3) / 4 * 4
	}
	if len(parts) == 0 {
		return "(unknown)"
	}
	return strings.Join(parts, " . ")
}

// String returns what the register holds.
func (v operand) String() string {
	if v.data != nil {
		return v.form.text(v.data)
	}
	if v.mask == nil {
		return v.text
	}
	keep := make([]byte, len(v.mask)) // x & mask ^ xor
	for i, m := range v.mask {
		keep[i] = ^m
	}
	switch {
	case slices.Equal(keep, v.xor):
		return v.text + " | " + v.form.bits(v.xor)
	case len(v.mask) == len(v.xor) && isZero(keep):
		return v.text + " ^ " + v.form.bits(v.xor)
	case isZero(v.xor):
		return v.text + " & " + v.form.bits(v.mask)
	}
	return v.text + " & " + v.form.bits(v.mask) + " ^ " + v.form.bits(v.xor)
}

func isZero(b []byte) bool { return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) }

// transport returns the name of the header that the rule loads from: of the protocol it has
// matched, or th. nft does not print the match if a field of that protocol follows.
func (w *ruleWriter) transport() string {
	if w.protocol == "" {
		return "th"
	}
	if w.protocolAt > 0 {
		w.words = slices.Delete(w.words, w.protocolAt-1, w.protocolAt)
		w.protocolAt = 0
	}
	return w.protocol
}

// Jump returns the chain that a rule jumps or goes to; empty if it does not.
func (r Rule) Jump() string {
	if len(r.Expressions) == 0 {
		return ""
	}
	v, ok := r.Expressions[len(r.Expressions)-1].(*expr.Verdict)
	if !ok {
		return ""
	}
	return v.Chain
}

// Comment returns the comment of a rule of iptables.
func (r Rule) Comment() string {
	for _, e := range r.Expressions {
		if x, ok := e.(Extension); ok && x.Name == "comment" {
			return x.info.text(0, len(x.info.data))
		}
	}
	return ""
}
