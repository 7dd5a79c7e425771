package nft

import (
	"hash/fnv"
	"strings"
)

// A Rule is one rule of a chain: statements from left to right.
type Rule []Statement

// String returns the rule as nft lists it.
func (r Rule) String() string {
	parts := make([]string, len(r))
	for i, s := range r {
		parts[i] = s.Text
	}
	return strings.Join(parts, " ")
}

// A Fingerprint identifies a rule that the kernel holds. A rule that was read cannot be
// compared with ours expression by expression, since kernels differ in what they add. So
// each rule has this number in its userdata, where nft does not list it. Rules of other
// programs have fingerprint zero.
type Fingerprint uint64

// encodingVersion is part of every fingerprint. It must change whenever the expressions of
// a text change.
const encodingVersion = "4 "

// Fingerprint returns the hash of the rule's text.
func (r Rule) Fingerprint() Fingerprint {
	h := fnv.New64a()
	h.Write([]byte(encodingVersion)) // a hash never fails
	h.Write([]byte(r.String()))
	return Fingerprint(h.Sum64())
}
