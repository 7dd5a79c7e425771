package ruletext

import (
	"bytes"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var operators = [...]string{"", "!= ", "< ", "<= ", "> ", ">= "} // enum nft_cmp_ops

func operator(n uint64) string {
	if n < uint64(len(operators)) {
		return operators[n]
	}
	return "? "
}

func (w *writer) cmp(a attributes) {
	v := w.takeRegister(a, unix.NFTA_CMP_SREG)
	op := a.number(unix.NFTA_CMP_OP)
	constant := a.data(unix.NFTA_CMP_DATA)
	equal := op == unix.NFT_CMP_EQ
	isZero := len(bytes.Trim(constant, "\x00")) == 0
	switch {
	case v.mask != nil && (v.kind == kindState || v.kind == kindStatus || v.kind == kindLabel) && isZero:
		not := ""
		if equal {
			not = "! "
		}
		w.write(v.text, not+v.kind.bits(v.mask))
	case v.mask != nil && v.kind == kindAddress:
		if p, ok := prefix(constant, v.mask); ok {
			w.write(v.text, operator(op)+p)
			return
		}
		fallthrough
	case v.mask != nil:
		word := operator(op)
		if equal {
			word = "== "
		}
		w.write(w.valueText(v), word+v.kind.bits(constant))
	default:
		w.write(w.valueText(v) + " " + operator(op) + v.kind.text(constant))
		if v.protocol && equal {
			w.requireProtocol(v.kind.text(constant))
		}
	}
}

func (w *writer) inRange(a attributes) {
	v := w.takeRegister(a, unix.NFTA_RANGE_SREG)
	from, to := a.data(unix.NFTA_RANGE_FROM_DATA), a.data(unix.NFTA_RANGE_TO_DATA)
	w.write(w.valueText(v), operator(a.number(unix.NFTA_RANGE_OP))+v.kind.text(from)+"-"+v.kind.text(to))
}

// bitwise changes bits of a value: x & mask ^ xor. Of a shift only the fact is noted.
func (w *writer) bitwise(a attributes) {
	v := w.takeRegister(a, unix.NFTA_BITWISE_SREG)
	v.mask, v.xor = a.data(unix.NFTA_BITWISE_MASK), a.data(unix.NFTA_BITWISE_XOR)
	if v.mask == nil {
		v.text += " (shifted)"
	}
	w.setRegister(a, unix.NFTA_BITWISE_DREG, v)
}

// byteorder does not change the meaning of a value.
func (w *writer) byteorder(a attributes) {
	const source, destination = 1, 2 // NFTA_BYTEORDER_SREG, NFTA_BYTEORDER_DREG
	w.setRegister(a, destination, w.takeRegister(a, source))
}

// lookupInverted is NFT_LOOKUP_F_INV.
const lookupInverted = 1

func (w *writer) lookup(a attributes) {
	key := w.join(w.takeRegisters(a, unix.NFTA_LOOKUP_SREG))
	set := setName(a.text(unix.NFTA_LOOKUP_SET))
	switch {
	case !a.has(unix.NFTA_LOOKUP_DREG) && a.number(unix.NFTA_LOOKUP_FLAGS)&lookupInverted != 0:
		w.write(key, "!= "+set)
	case !a.has(unix.NFTA_LOOKUP_DREG):
		w.write(key, set)
	case a.number(unix.NFTA_LOOKUP_DREG) == unix.NFT_REG_VERDICT:
		w.write(key, "vmap "+set)
	default:
		w.setRegister(a, unix.NFTA_LOOKUP_DREG, value{text: key + " map " + set, fromMap: true})
	}
}

// setName returns how a rule refers to a set. Anonymous sets are printed in place, without
// their elements, which are not in the rule.
func setName(name string) string {
	if strings.HasPrefix(name, "__map") || strings.HasPrefix(name, "__set") {
		return "{...}"
	}
	return "@" + name
}

func (w *writer) dynset(a attributes) {
	verb := "add"
	switch a.number(unix.NFTA_DYNSET_OP) {
	case unix.NFT_DYNSET_OP_UPDATE:
		verb = "update"
	case 2: // NFT_DYNSET_OP_DELETE
		verb = "delete"
	}
	data := w.dataOf(a) // which follows the key in the registers
	element := w.join(w.takeRegisters(a, unix.NFTA_DYNSET_SREG_KEY))
	if ms := a.number(unix.NFTA_DYNSET_TIMEOUT); ms > 0 {
		element += " timeout " + duration(time.Duration(ms)*time.Millisecond)
	}
	if a.has(unix.NFTA_DYNSET_EXPR) {
		inner := &writer{family: w.family, statements: w.statements, registers: w.registers}
		if inner.expression(a[unix.NFTA_DYNSET_EXPR]) == nil {
			element += " " + strings.Join(inner.words, " ")
		}
	}
	w.write(verb, "@"+a.text(unix.NFTA_DYNSET_SET_NAME), "{ "+element+data+" }")
}

// dataOf returns the data of an element that is added to a map.
func (w *writer) dataOf(a attributes) string {
	if !a.has(unix.NFTA_DYNSET_SREG_DATA) {
		return ""
	}
	return " : " + w.join(w.takeRegisters(a, unix.NFTA_DYNSET_SREG_DATA))
}

// guessKind returns the likely kind of a constant that is not compared with a field.
func guessKind(b []byte) kind {
	switch len(b) {
	case 2:
		return kindNumber
	case 4, 16:
		return kindAddress
	}
	return kindHex
}
