package nft

import (
	"hash/fnv"
	"strings"
)

// Rule is one rule of a chain: statements from left to right.
type Rule []Statement

// String is the rule as nft lists it.
func (r Rule) String() string {
	parts := make([]string, len(r))
	for i, s := range r {
		parts[i] = s.Text
	}
	return strings.Join(parts, " ")
}

// Fingerprint tells rules apart that the kernel holds. A rule read back cannot
// be compared with ours expression by expression, since kernels differ in what
// they add; so each rule carries this number with it, where nft does not show
// it. A rule that another program made has none.
type Fingerprint uint64

// encodingVersion is part of every fingerprint. It must change when the same
// text comes to mean other expressions.
const encodingVersion = "2 "

// Fingerprint identifies the rule by its text.
func (r Rule) Fingerprint() Fingerprint {
	h := fnv.New64a()
	h.Write([]byte(encodingVersion)) // a hash never fails
	h.Write([]byte(r.String()))
	return Fingerprint(h.Sum64())
}
