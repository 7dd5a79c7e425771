package ruletext

import (
	"strings"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// attributes are the attributes of a message or of an attribute, by kind; each kind occurs
// once.
type attributes map[uint16][]byte

func parse(b []byte) (attributes, error) {
	a := attributes{}
	var d attr.Decoder
	for kind, value := range d.Attributes(b) {
		a[kind] = value
	}
	return a, d.Err()
}

// number returns an attribute of up to eight bytes; zero if it is missing.
func (a attributes) number(kind uint16) uint64 {
	var n uint64
	if b := a[kind]; len(b) <= 8 {
		for _, c := range b {
			n = n<<8 | uint64(c)
		}
	}
	return n
}

// text returns a string attribute.
func (a attributes) text(kind uint16) string { return text(a[kind]) }

// has reports whether there is an attribute of a kind.
func (a attributes) has(kind uint16) bool {
	_, ok := a[kind]
	return ok
}

// data returns the value in an attribute that holds data; nil if it is malformed.
func (a attributes) data(kind uint16) []byte {
	inner, _ := parse(a[kind])
	return inner[unix.NFTA_DATA_VALUE]
}

// text returns a string up to its first zero, printable.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return Printable(s)
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
