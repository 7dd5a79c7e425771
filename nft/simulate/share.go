package simulate

import (
	"encoding/binary"

	"github.com/google/nftables/expr"
)

// maxCompared is the limit of the numbers that are compared to find a share.
const maxCompared = 1 << 16

// A share is the share of numbers that match, one of them, and one that does not match.
type share struct {
	probability float64
	yes, no     uint32
}

// matchingShare returns the share of the numbers at random that the next expressions of a rule
// compare, as in "numgen random mod 100 < 30", so that one pick of two replaces one of all numbers.
func matchingShare(e *expr.Numgen, next []any) (share, bool) {
	matches, ok := comparison(e.Register, next)
	if !ok || e.Modulus == 0 || e.Modulus > maxCompared {
		return share{}, false
	}
	var s share
	count := uint32(0)
	for n := range e.Modulus {
		if matches(e.Offset + n) {
			s.yes = e.Offset + n
			count++
		} else {
			s.no = e.Offset + n
		}
	}
	s.probability = float64(count) / float64(e.Modulus)
	return s, true
}

// comparison returns the comparison of a number in a register, in the byte order of the machine
// or of the network.
func comparison(register uint32, next []any) (matches func(n uint32) bool, ok bool) {
	var order binary.AppendByteOrder = binary.NativeEndian
	if len(next) > 1 {
		b, swapped := next[0].(*expr.Byteorder)
		if swapped && b.SourceRegister == register && b.DestRegister == register && b.Len == 4 && b.Size == 4 {
			order, next = binary.BigEndian, next[1:]
		}
	}
	if len(next) == 0 {
		return nil, false
	}
	bytesOf := func(n uint32) []byte { return order.AppendUint32(nil, n) }
	switch c := next[0].(type) {
	case *expr.Cmp:
		if c.Register == register && len(c.Data) == 4 {
			_, found := holds(c, c.Data)
			return func(n uint32) bool { ok, _ := holds(c, bytesOf(n)); return ok }, found
		}
	case *expr.Range:
		if c.Register == register && len(c.FromData) == 4 && len(c.ToData) == 4 {
			return func(n uint32) bool { return inside(c, bytesOf(n)) }, true
		}
	}
	return nil, false
}

// pickShare picks whether the number matches, and loads one that does or does not.
func (w *walk) pickShare(e *expr.Numgen, s share) error {
	n := s.no
	if s.probability == 1 || s.probability > 0 && w.chooseFirst(s.probability) {
		n = s.yes
	}
	return w.regs.load(e.Register, known(nativeBytes(n)))
}
