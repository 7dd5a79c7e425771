package ruletext

import (
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// writer follows the expressions of a rule.
type writer struct {
	family    uint8 // NFPROTO_* of the table
	registers map[uint32]value
	words     []string
	comment   string // of iptables
	rejects   bool
	packets   uint64
	// protocol is the transport protocol that the rule has made sure of, and saidAt
	// the place among the words where it says so, from 1 on.
	protocol   string
	protocolAt int
}

// value is what a register holds.
type value struct {
	text     string
	kind     kind
	length   uint32 // bytes; zero if not known
	data     []byte // of a constant
	mask     []byte // of a value that went through "bitwise", with xor
	xor      []byte
	fromMap  bool
	protocol bool // the transport protocol
}

// registerOffset is where a register begins: there are names for 16 bytes and for 4 (enum
// nft_registers).
func registerOffset(register uint64) uint32 {
	if register >= unix.NFT_REG32_00 {
		return uint32(register-unix.NFT_REG32_00) * 4
	}
	return uint32(max(register, 1)-1) * 16
}

func (w *writer) write(words ...string) { w.words = append(w.words, words...) }

// setRegister puts a value into the register that an attribute names.
func (w *writer) setRegister(a attributes, register uint16, v value) {
	w.registers[registerOffset(a.number(register))] = v
}

// takeRegister reads a register for good: what is in it was put there for one purpose.
func (w *writer) takeRegister(a attributes, register uint16) value {
	at := registerOffset(a.number(register))
	v, known := w.registers[at]
	if !known {
		return value{text: "(unknown)"}
	}
	delete(w.registers, at)
	return v
}

// takeRegisters reads values that lie one behind the other, from a register on.
func (w *writer) takeRegisters(a attributes, register uint16) []value {
	var list []value
	at := registerOffset(a.number(register))
	for {
		v, known := w.registers[at]
		if !known {
			break
		}
		delete(w.registers, at)
		list = append(list, v)
		if v.length == 0 {
			break
		}
		at += (v.length + 3) / 4 * 4
	}
	return list
}

// join is a concatenation.
func (w *writer) join(list []value) string {
	if len(list) == 0 {
		return "(unknown)"
	}
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = w.valueText(v)
	}
	return strings.Join(parts, " . ")
}

// valueText is a value by itself.
func (w *writer) valueText(v value) string {
	switch {
	case v.data != nil:
		return v.kind.text(v.data)
	case v.mask != nil:
		return masked(v)
	}
	return v.text
}

// masked is a number of which bits were changed: x & mask ^ xor.
func masked(v value) string {
	var keep, flip []byte
	same := len(v.mask) == len(v.xor)
	for i := range v.mask {
		keep = append(keep, ^v.mask[i])
	}
	flip = v.xor
	zero, ones := make([]byte, len(v.xor)), slices.Repeat([]byte{0xff}, len(v.mask))
	switch {
	case same && slices.Equal(keep, flip):
		return v.text + " | " + v.kind.bits(flip)
	case same && slices.Equal(v.mask, ones):
		return v.text + " ^ " + v.kind.bits(flip)
	case slices.Equal(v.xor, zero):
		return v.text + " & " + v.kind.bits(v.mask)
	}
	return v.text + " & " + v.kind.bits(v.mask) + " ^ " + v.kind.bits(v.xor)
}

// native is a number in the machine's byte order.
func native(b []byte) (uint32, bool) {
	if len(b) != 4 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(b), true
}

// requireProtocol notes which transport protocol the rule asks for. nft does not say so where
// a field of that protocol follows, and then neither do we.
func (w *writer) requireProtocol(protocol string) { w.protocol, w.protocolAt = protocol, len(w.words) }

// transport is the name of the header that the rule reads: the protocol's, or any.
func (w *writer) transport() string {
	if w.protocol == "" {
		return "th"
	}
	if w.protocolAt > 0 {
		w.words = slices.Delete(w.words, w.protocolAt-1, w.protocolAt)
		w.protocolAt = 0
	}
	return w.protocol
}
