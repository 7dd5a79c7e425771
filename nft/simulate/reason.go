package simulate

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/google/nftables/expr"
)

// reason is why a rule matches, or does not, in words, as far as that is worth
// telling.
type reason struct {
	text string

	// What was loaded last, to be compared.
	subject subject
	mask    []byte
	fib     netip.Addr
}

// subject is what a comparison is about.
type subject uint8

const (
	subjectNone subject = iota
	subjectSource
	subjectDestination
	subjectInterface
	subjectMark
)

// aboutPayload notes that an address was loaded.
func (r *reason) aboutPayload(w *walk, e *expr.Payload) {
	r.subject, r.mask = subjectNone, nil
	a := addressFields[w.frame.family]
	if e.Base != expr.PayloadBaseNetworkHeader || int(e.Len) != a.length {
		return
	}
	switch int(e.Offset) {
	case a.source:
		r.subject = subjectSource
	case a.destination:
		r.subject = subjectDestination
	}
}

// aboutMeta notes what of the packet was loaded.
func (r *reason) aboutMeta(key expr.MetaKey) {
	r.subject, r.mask = subjectNone, nil
	switch key {
	case expr.MetaKeyIIFNAME:
		r.subject = subjectInterface
	case expr.MetaKeyMARK:
		r.subject = subjectMark
	}
}

// noteComparison puts a comparison into words.
func (w *walk) noteComparison(e *expr.Cmp, ok bool) {
	r := &w.reason
	is := "is"
	if ok != (e.Op == expr.CmpOpEq) {
		is = "is not"
	}
	switch {
	case r.fib.IsValid():
		r.text = fmt.Sprintf("%s %s an address of this node", r.fib, is)
	case r.subject == subjectSource:
		r.text = fmt.Sprintf("%s %s %s", w.frame.source().Addr(), is, prefixText(e.Data, r.mask))
	case r.subject == subjectDestination:
		r.text = fmt.Sprintf("%s %s %s", w.frame.destination().Addr(), is, prefixText(e.Data, r.mask))
	case r.subject == subjectInterface:
		r.text = fmt.Sprintf("the interface %s %s %s", w.frame.in.Name, is, nameText(e.Data))
		if w.frame.in.Name == "" {
			r.text = fmt.Sprintf("it comes in by no interface, so %s by %s", is, nameText(e.Data))
		}
	}
	r.fib, r.subject = netip.Addr{}, subjectNone
}

// prefixText is "in 10.244.0.0/16", or an address that is compared whole.
func prefixText(b, mask []byte) string {
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		return "what the rule compares it with"
	}
	bits := 0
	for _, m := range mask {
		for ; m != 0; m <<= 1 {
			bits++
		}
	}
	if mask == nil || bits == a.BitLen() {
		return a.String()
	}
	return "in " + netip.PrefixFrom(a, bits).String()
}

// nameText is an interface's name, with an asterisk if only its beginning matters.
func nameText(b []byte) string {
	name, _, whole := bytes.Cut(b, []byte{0})
	if !whole {
		return string(name) + "*"
	}
	return string(name)
}

// prefix puts a reason before what comes of it.
func (r reason) prefix(text string) string {
	if r.text == "" {
		return text
	}
	return r.text + ": " + text
}
