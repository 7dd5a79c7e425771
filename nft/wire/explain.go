package wire

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

// Explain traces the kernel's refusal of a message to the op, the element and its Service
// port, or the expression. sequence is the number of the message, offset where in it the
// kernel found the fault, or zero if it did not report that (netlink's extended
// acknowledgement).
func (e *Encoded) Explain(sequence, offset uint32, errno syscall.Errno, message string) *Error {
	out := &Error{Errno: errno, Message: message}
	if sequence == 0 || int(sequence) > len(e.origins) {
		return out
	}
	m := e.origins[sequence-1]
	out.Op = e.batch[m.op]
	var length int
	var element func(i int) nft.Element // in the order of the messages
	switch op := out.Op.(type) {
	case nft.AddElements:
		length, element = len(op.Elements), func(i int) nft.Element { return op.Elements[i] }
	case nft.AddFrontends:
		length, element = op.Len(), op.At
	case nft.DeleteElements:
		length, element = len(op.Elements), func(i int) nft.Element { return op.Elements[i] }
	case nft.AddRule:
		// Of the rule itself, not of the set that belongs to it.
		if kind := binary.NativeEndian.Uint16(e.Bytes[m.offset+4:]); kind&0xff == unix.NFT_MSG_NEWRULE {
			out.Expression = expressionAt(e.Bytes[m.offset:], int(offset))
		}
		return out
	default:
		return out
	}
	if i := elementAt(e.Bytes[m.offset:], int(offset)); i >= 0 && m.element+i < length {
		el := element(m.element + i)
		out.Element = &el
		if el.Service != nil {
			out.Service = *el.Service
		}
	}
	return out
}

// elementAt is the number of the element of a message that an offset points to, negative
// if it points to something before them: a missing table or set is not due to an element.
// Ends of intervals count as elements too, so the result may be too high in an interval
// set; those serve no Services.
func elementAt(message []byte, offset int) int {
	n, end := 0, int(binary.NativeEndian.Uint32(message))
	at := attr.MessageHeaderLen + attr.BodyHeaderLen
	for at+attr.HeaderLen <= end {
		length := int(binary.NativeEndian.Uint16(message[at:]))
		kind := binary.NativeEndian.Uint16(message[at+2:]) &^ unix.NLA_F_NESTED
		if kind == unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			at, end = at+attr.HeaderLen, min(end, at+length)
			break
		}
		at += (length + 3) &^ 3
	}
	if offset < at {
		return -1
	}
	for at+attr.HeaderLen <= end {
		length := int(binary.NativeEndian.Uint16(message[at:]))
		if at += (length + 3) &^ 3; at > offset {
			return n
		}
		n++
	}
	return n
}

// expressionAt is the name of the expression of a rule's message that an offset points to,
// if it points to one.
func expressionAt(message []byte, offset int) string {
	if offset < 0 || offset > len(message) {
		return ""
	}
	var d attr.Decoder
	for _, expression := range d.Attributes(message[offset:]) {
		if name := d.Find(expression, unix.NFTA_EXPR_NAME); d.Err() == nil {
			return attr.String(name)
		}
		break
	}
	return ""
}

// options are the kernel's build options for what the rule set uses, besides nf_tables
// itself.
var options = map[string]string{
	"counter": "CONFIG_NFT_COUNTER",
	"ct":      "CONFIG_NFT_CT",
	"fib":     "CONFIG_NFT_FIB",
	"hash":    "CONFIG_NFT_HASH",
	"limit":   "CONFIG_NFT_LIMIT",
	"masq":    "CONFIG_NFT_MASQ",
	"nat":     "CONFIG_NFT_NAT",
	"numgen":  "CONFIG_NFT_NUMGEN",
	"reject":  "CONFIG_NFT_REJECT",
	"ip":      "CONFIG_NF_TABLES_IPV4",
	"ip6":     "CONFIG_NF_TABLES_IPV6",
	"natbase": "CONFIG_NF_NAT",
}

// Missing describes in one line what a kernel lacks that refused [nft.Sample] with this
// error.
func (e *Error) Missing() string {
	named := func(what, key string) string {
		if option := options[key]; option != "" {
			return fmt.Sprintf("%s (%s)", what, option)
		}
		return what
	}
	switch op := e.Op.(type) {
	case nil:
		return "nf_tables (CONFIG_NF_TABLES)"
	case nft.AddTable:
		name := nft.FamilyName(op.Family)
		return named("nf_tables for family "+name, name)
	case nft.AddChain:
		if op.Chain.Hook().Type == "nat" {
			return named("chains of type nat", "natbase")
		}
	case nft.DeleteChain:
		return "what lets a chain go in one transaction with all that leads there (fix 628bd3e49cba of Linux 6.4)"
	case nft.AddRule:
		if e.Expression != "" {
			return named("the nf_tables expression "+e.Expression, e.Expression)
		}
	}
	return "what this takes: " + e.Error()
}
