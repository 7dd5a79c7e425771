package simulate

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/google/nftables/expr"

	"kube-vmap/nft/foreign/simulate/path"
)

// A reason is why a rule matches or does not, as text, if that is of interest.
type reason struct {
	text string

	// subject is what the next comparison is about, if that is of interest, and object prints
	// what it is compared with, under a mask.
	subject string
	object  func(data, mask []byte) string
	mask    []byte
}

// about notes what the next comparison is about.
func (w *walk) about(subject string, object func(data, mask []byte) string) {
	w.reason.subject, w.reason.object, w.reason.mask = subject, object, nil
}

func (w *walk) aboutPayload(e *expr.Payload) {
	w.about("", nil)
	a := addressFields[w.frame.family]
	if e.Base != expr.PayloadBaseNetworkHeader || int(e.Len) != a.length {
		return
	}
	switch int(e.Offset) {
	case a.source:
		w.about(w.frame.source().Addr().String(), prefixText)
	case a.destination:
		w.about(w.frame.destination().Addr().String(), prefixText)
	}
}

func (w *walk) aboutMeta(key expr.MetaKey) {
	switch {
	case key != expr.MetaKeyIIFNAME:
		w.about("", nil)
	case w.frame.in.Name == "":
		w.about("it comes in by no interface, so", func(b, _ []byte) string { return "by " + nameText(b) })
	default:
		w.about("the interface "+w.frame.in.Name, func(b, _ []byte) string { return nameText(b) })
	}
}

func (w *walk) noteComparison(e *expr.Cmp, ok bool) {
	r := &w.reason
	if r.subject == "" {
		return
	}
	is := " is "
	if ok != (e.Op == expr.CmpOpEq) {
		is = " is not "
	}
	r.text = r.subject + is + r.object(e.Data, r.mask)
	r.subject = ""
}

// prefixText returns "in 10.244.0.0/16", or an address that is compared whole.
func prefixText(b, mask []byte) string {
	if mask == nil {
		mask = slices.Repeat([]byte{0xff}, len(b))
	}
	p, ok := prefixOf(b, mask)
	switch {
	case !ok:
		return "the value in the rule"
	case p.IsSingleIP():
		return p.Addr().String()
	}
	return "in " + p.String()
}

// nameText returns an interface's name, with an asterisk if only a prefix is compared.
func nameText(b []byte) string {
	name, _, whole := bytes.Cut(b, []byte{0})
	if !whole {
		return string(name) + "*"
	}
	return string(name)
}

// A Doubt is a rule of another program that may decide otherwise, or without a chain something
// of the node.
type Doubt struct {
	Base Chain // by which the packet came there
	Rule path.RuleRef
	Why  string // the expression that is not understood
}

// String returns "table inet firewall, chain forward, may decide otherwise: rule handle 1 of ...".
func (d Doubt) String() string {
	if d.Base == (Chain{}) {
		return d.Why
	}
	return fmt.Sprintf("table %s, chain %s, may decide otherwise: rule handle %d of %s has %s",
		d.Base.Table, d.Base.Name, d.Rule.Rule, d.Rule.Chain, d.Why)
}

// addDoubt adds a doubt, unless its base chain has one already, or it is known.
func addDoubt(list []Doubt, d Doubt) []Doubt {
	if slices.ContainsFunc(list, func(o Doubt) bool {
		return o == d || o.Base == d.Base && d.Base != (Chain{})
	}) {
		return list
	}
	return append(list, d)
}
