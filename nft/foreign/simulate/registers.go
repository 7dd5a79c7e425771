package simulate

import (
	"slices"

	"golang.org/x/sys/unix"
)

// registers are the kernel's registers for one rule: 16 of 4 bytes, which are also
// addressed as four of 16 bytes. Their content may be unknown, byte by byte: the port of a
// client that was not given, for instance.
type registers struct {
	data    [64]byte
	unknown [64]bool
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
	unknown []bool
}

func known(b []byte) value { return value{bytes: b} }

func unknownValue(n int) value {
	return value{bytes: make([]byte, n), unknown: slices.Repeat([]bool{true}, n)}
}

func (v value) isKnown() bool {
	return !slices.Contains(v.unknown, true)
}

// An undecidedError is why the simulation cannot decide what happens.
type undecidedError string

// Error implements error.
func (c undecidedError) Error() string { return "cannot predict: " + string(c) }
