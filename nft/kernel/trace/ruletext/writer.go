package ruletext

import (
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A writer interprets the expressions of a rule.
type writer struct {
	family     uint8 // NFPROTO_* of the table
	statements map[string]func(*writer, attributes)
	registers  map[uint32]value
	words      []string
	comment    string // of iptables
	rejects    bool
	packets    uint64
	// protocol is the transport protocol that the rule has matched, and protocolAt the
	// position of that match in words, from 1.
	protocol   string
	protocolAt int
}

// A value is the content of a register.
type value struct {
	text     string
	kind     kind
	length   uint32 // bytes; zero if not known
	data     []byte // of a constant
	mask     []byte // after a bitwise expression, with xor
	xor      []byte
	fromMap  bool
	protocol bool // the transport protocol
}

// registerOffset returns the offset of a register: there are names for 16 bytes and for 4
// (enum nft_registers).
func registerOffset(register uint64) uint32 {
	if register >= unix.NFT_REG32_00 {
		return uint32(register-unix.NFT_REG32_00) * 4
	}
	return uint32(max(register, 1)-1) * 16
}

func (w *writer) write(words ...string) { w.words = append(w.words, words...) }

// setRegister stores a value in the register that an attribute names.
func (w *writer) setRegister(a attributes, register uint16, v value) {
	w.registers[registerOffset(a.number(register))] = v
}

// takeRegister returns the value of a register and clears it, because a value is used once.
func (w *writer) takeRegister(a attributes, register uint16) value {
	at := registerOffset(a.number(register))
	v, known := w.registers[at]
	if !known {
		return value{text: "(unknown)"}
	}
	delete(w.registers, at)
	return v
}

// takeRegisters takes the values of adjacent registers.
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

// join returns a concatenation.
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

// valueText returns a value as text.
func (w *writer) valueText(v value) string {
	switch {
	case v.data != nil:
		return v.kind.text(v.data)
	case v.mask != nil:
		return masked(v)
	}
	return v.text
}

// masked returns a number of which bits were changed: x & mask ^ xor.
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

// native returns a number in the byte order of the machine.
func native(b []byte) (uint32, bool) {
	if len(b) != 4 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(b), true
}

// requireProtocol notes which transport protocol the rule matches. nft does not print the match
// if a field of that protocol follows; see transport.
func (w *writer) requireProtocol(protocol string) { w.protocol, w.protocolAt = protocol, len(w.words) }

// transport returns the name of the header that the rule loads from: the protocol's, or th.
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
