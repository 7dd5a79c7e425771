package simulate

import (
	"cmp"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// registers are the kernel's registers for one rule: 16 of 4 bytes, which are also
// addressed as four of 16 bytes. Their content may be unknown, bit by bit: the port of a
// client that was not given, for instance.
type registers struct {
	data    [64]byte
	unknown [64]byte
	bounds  bounds // of what was loaded last
}

func registerOffset(register uint32) (int, error) {
	switch {
	case register >= unix.NFT_REG_1 && register <= unix.NFT_REG_4:
		return int(register-unix.NFT_REG_1) * 16, nil
	case register >= unix.NFT_REG32_00 && register <= unix.NFT_REG32_15:
		return int(register-unix.NFT_REG32_00) * 4, nil
	}
	return 0, undecidedError("an unknown register")
}

// load stores bytes in a register, padded with zeros to the next one.
func (r *registers) load(register uint32, b value) error {
	i, err := registerOffset(register)
	if err != nil {
		return err
	}
	n := (len(b.bytes) + 3) &^ 3
	if i+n > len(r.data) {
		return undecidedError("a value longer than the registers")
	}
	r.bounds = bounds{}
	clear(r.data[i : i+n])
	clear(r.unknown[i : i+n])
	copy(r.data[i:], b.bytes)
	copy(r.unknown[i:], b.unknown)
	return nil
}

func (r *registers) read(register uint32, n int) (value, error) {
	i, err := registerOffset(register)
	if err != nil {
		return value{}, err
	}
	if n < 0 || i+n > len(r.data) {
		return value{}, undecidedError("a value longer than the registers")
	}
	return value{bytes: r.data[i : i+n], unknown: r.unknown[i : i+n]}, nil
}

// readKnown returns bytes of a register. If some are unknown, the error says what cannot be decided.
func (r *registers) readKnown(register uint32, n int, undecided string) ([]byte, error) {
	v, err := r.read(register, n)
	if err == nil && !v.isKnown() {
		err = undecidedError(undecided)
	}
	return v.bytes, err
}

// A value is the content of a register. unknown is as long as bytes, or nil if all are
// known.
type value struct {
	bytes   []byte
	unknown []byte // bits
}

func known(b []byte) value { return value{bytes: b} }

func unknownValue(n int) value {
	return value{bytes: make([]byte, n), unknown: slices.Repeat([]byte{0xff}, n)}
}

func (v value) isKnown() bool {
	return !slices.ContainsFunc(v.unknown, func(bits byte) bool { return bits != 0 })
}

// bounds are the least and the greatest that an unknown number in a register may be.
type bounds struct {
	register  uint32
	length    int
	low, high uint64
	native    bool // in the byte order of the machine
}

func (b bounds) isOf(register uint32, length int) bool {
	return b.length == length && b.register == register
}

// compare compares the number, if all that it may be give the same result.
func (b bounds) compare(e *expr.Cmp) (ok, decided bool) {
	if len(e.Data) == 0 || !b.isOf(e.Register, len(e.Data)) || int(e.Op) >= len(operators) {
		return false, false
	}
	data := slices.Clone(e.Data)
	if b.native && isLittleEndian {
		slices.Reverse(data)
	}
	n, equality := number(data), e.Op == expr.CmpOpEq || e.Op == expr.CmpOpNeq
	at := func(v uint64) bool { return holds(e.Op, cmp.Compare(v, n)) }
	return at(b.low), at(b.low) == at(b.high) && (!equality || n < b.low || n > b.high)
}

// holds reports whether a comparison has an operator (enum nft_cmp_ops).
func holds(op expr.CmpOp, c int) bool {
	return [...]bool{c == 0, c != 0, c < 0, c <= 0, c > 0, c >= 0}[op]
}

// An undecidedError is why the simulation cannot decide what happens.
type undecidedError string

// Error implements error.
func (c undecidedError) Error() string { return "cannot predict: " + string(c) }
