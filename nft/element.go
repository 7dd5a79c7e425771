package nft

import (
	"net/netip"
	"unicode/utf8"
	"unique"

	"kube-vmap/model"
)

// A Key is the key of an element, of any kind of set. Fields that the set's layout lacks
// are zero.
type Key struct {
	Addr     netip.Addr
	Pick     uint32 // of FieldPick, or of FieldNumber
	Port     uint16
	Protocol model.Protocol
	// Bits is the length of the prefix Addr/Bits, in sets of intervals.
	Bits uint8
	// Source is the client's prefix, if the key has [FieldClient]; in SetEndpointIPs it is
	// an endpoint's address. It is interned: few keys have one.
	Source unique.Handle[netip.Prefix]
}

// SourcePrefix returns the prefix of Source, invalid if there is none.
func (k *Key) SourcePrefix() netip.Prefix {
	if k.Source == (unique.Handle[netip.Prefix]{}) {
		return netip.Prefix{}
	}
	return k.Source.Value()
}

// Prefix returns the key of an interval set.
func (k *Key) Prefix() netip.Prefix { return netip.PrefixFrom(k.Addr, int(k.Bits)) }

// A Value is what an element maps its key to: a verdict, an endpoint, one half of it or its
// number, or nothing.
type Value struct {
	Verdict  Verdict
	Chain    ChainID // for VerdictGoto
	Number   uint32
	Endpoint netip.AddrPort
}

// refers reports whether an element with the value jumps to a chain created on demand.
func (v *Value) refers() bool { return v.Verdict == VerdictGoto && v.Chain.Kind >= baseChains }

// goesTo is the value of an element that jumps to the chain.
func goesTo(id ChainID) Value { return Value{Verdict: VerdictGoto, Chain: id} }

// A Verdict is what an element of a verdict map does with a packet.
type Verdict uint8

// The verdicts in use.
const (
	VerdictNone Verdict = iota // not an element of a verdict map
	VerdictGoto
	VerdictDrop
)

// An Element is one element of a set or map.
type Element struct {
	Key   Key
	Value Value
	// Service is the Service port that the element serves. If the kernel refuses the
	// element, that port is quarantined. It is nil if the element serves none, and in
	// elements that were read from the kernel, which knows comments only.
	Service *model.ServicePortName
	// Comment is the comment of an element that was read from the kernel. A written
	// element gets the name of its Service as its comment, see [Element.AppendComment].
	Comment string
}

// maxCommentLen is how long a comment may be: nft's 128 bytes include a final zero.
const (
	maxCommentLen  = 127
	commentTooLong = "..."
)

// AppendComment appends the comment that the kernel holds for the element, if the layout of
// its set has comments: the name of the Service port, cut to the kernel's limit. Comments
// are for people who list the rule set, and show when a frontend moves from one Service to
// another.
func (e *Element) AppendComment(b []byte) []byte {
	at := len(b)
	if s := e.Service; s != nil {
		b = append(append(append(b, s.Namespace...), '/'), s.Name...)
		if s.Port != "" {
			b = append(append(b, ':'), s.Port...)
		}
	} else {
		b = append(b, e.Comment...)
	}
	if len(b)-at <= maxCommentLen {
		return b
	}
	// Names of Services consist of letters, digits, hyphens and dots, but a cut must not
	// leave half a character whatever the comment.
	end := at + maxCommentLen - len(commentTooLong)
	for end > at && !utf8.RuneStart(b[end]) {
		end--
	}
	return append(b[:end], commentTooLong...)
}

// sameComment reports whether the kernel holds the same comment for both elements.
func sameComment(a, b *Element) bool {
	var bufs [2][192]byte
	return string(a.AppendComment(bufs[0][:0])) == string(b.AppendComment(bufs[1][:0]))
}

// ServiceName returns the name of the Service port that the element serves, if any, for
// people; the comment if the element was read from the kernel.
func (e *Element) ServiceName() string {
	if e.Service != nil {
		return e.Service.String()
	}
	return e.Comment
}

// CompareKeys orders keys as nft lists them, for stable texts.
func CompareKeys(a, b Key) int {
	if c := a.Addr.Compare(b.Addr); c != 0 {
		return c
	}
	for _, pair := range [...][2]uint32{
		{uint32(a.Protocol), uint32(b.Protocol)},
		{uint32(a.Port), uint32(b.Port)},
		{a.Pick, b.Pick},
		{uint32(a.Bits), uint32(b.Bits)},
	} {
		switch {
		case pair[0] < pair[1]:
			return -1
		case pair[0] > pair[1]:
			return 1
		}
	}
	if a.Source == b.Source {
		return 0
	}
	return comparePrefixes(a.SourcePrefix(), b.SourcePrefix())
}

func sameKey(a, b Element) bool { return a.Key == b.Key }
