package ruletext

import (
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// errTruncated is what a message that ends too early is refused with.
var errTruncated = errors.New("message is truncated")

// attributes are those of a message or of an attribute, by kind.
type attributes map[uint16][]byte

// attrLen is the length of an attribute's header.
const attrLen = 4

// each calls fn for every attribute of b, in order, flags taken off its kind.
func each(b []byte, fn func(kind uint16, value []byte)) error {
	for len(b) >= attrLen {
		n := int(binary.NativeEndian.Uint16(b))
		kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if n < attrLen || n > len(b) {
			return errTruncated
		}
		fn(kind, b[attrLen:n])
		b = b[min((n+3)&^3, len(b)):]
	}
	if len(b) > 0 {
		return errTruncated
	}
	return nil
}

// parse reads attributes of which each kind occurs once.
func parse(b []byte) (attributes, error) {
	a := attributes{}
	return a, each(b, func(kind uint16, value []byte) { a[kind] = value })
}

// number is an attribute of up to eight bytes; zero if it is not there.
func (a attributes) number(kind uint16) uint64 {
	var n uint64
	if b := a[kind]; len(b) <= 8 {
		for _, c := range b {
			n = n<<8 | uint64(c)
		}
	}
	return n
}

// text is a string attribute without its final zero.
func (a attributes) text(kind uint16) string { return trim(a[kind]) }

// has reports whether there is an attribute of that kind.
func (a attributes) has(kind uint16) bool {
	_, ok := a[kind]
	return ok
}

// data is the value within an attribute of type NFTA_DATA_VALUE.
func (a attributes) data(kind uint16) []byte {
	inner, _ := parse(a[kind]) // what is broken there has no value
	return inner[unix.NFTA_DATA_VALUE]
}

// trim is a string without what follows its first zero, and without what would
// mislead a terminal.
func trim(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return Printable(s)
}

// Printable is a text that somebody else chose, without what would mislead a
// terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\uFFFD' {
			return '?'
		}
		return r
	}, s)
}
