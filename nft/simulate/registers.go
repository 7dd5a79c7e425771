package simulate

import "golang.org/x/sys/unix"

// registers are the kernel's registers for one rule: 16 of 4 bytes, which are also
// addressed as four of 16 bytes. Their content may be unknown, byte by byte: the port of a
// client that was not given, for instance.
type registers struct {
	data    [64]byte
	unknown [64]bool
}

// registerOffset returns the offset of a register.
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

// read returns bytes of a register.
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

// A value is the content of a register. unknown is as long as bytes, or nil if all are
// known.
type value struct {
	bytes   []byte
	unknown []bool
}

// known returns a value of known bytes.
func known(b []byte) value { return value{bytes: b} }

// unknownValue returns a value of which only the length is known.
func unknownValue(n int) value {
	v := value{bytes: make([]byte, n), unknown: make([]bool, n)}
	for i := range v.unknown {
		v.unknown[i] = true
	}
	return v
}

// isKnown reports whether all of the value is known.
func (v value) isKnown() bool {
	for _, u := range v.unknown {
		if u {
			return false
		}
	}
	return true
}

// An undecidedError is why the simulation cannot decide what happens.
type undecidedError string

// Error implements error.
func (c undecidedError) Error() string { return "cannot predict: " + string(c) }
