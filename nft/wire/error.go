package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

// An Error is the kernel's refusal of a batch, with the refused object. Nothing of that
// transaction was applied.
type Error struct {
	// Op is the refused change, nil if the batch was refused as a whole.
	Op nft.Op
	// Service is the Service port that the refused element serves; zero if no element was
	// refused, or it is unknown.
	Service model.ServicePortName
	// Element is the refused element, nil if no element was refused or it is unknown.
	Element *nft.Element
	// Expression is the refused expression of a rule, by the kernel's name for it; empty
	// if no rule was refused or it is unknown.
	Expression string
	Errno      syscall.Errno
	// Message is the kernel's own explanation, if any.
	Message string
	// Others are the other refusals of the same transaction, which may only follow from
	// the first.
	Others []*Error
}

// Error names the refused command, as short as possible.
func (e *Error) Error() string {
	s := e.command() + ": " + e.reason()
	if e.Message != "" {
		s += " (" + e.Message + ")"
	}
	if name := e.serviceName(); name != "" {
		s = "service " + name + ": " + s
	}
	return s
}

// command is the refused command, with no more than the refused element.
func (e *Error) command() string {
	if id, adds := nft.AddsTo(e.Op); adds {
		if e.Element != nil {
			return nft.AddElements{Set: id, Elements: []nft.Element{*e.Element}}.String()
		}
		return "add elements " + setText(id)
	}
	switch op := e.Op.(type) {
	case nil:
		return "batch"
	case nft.DeleteElements:
		if e.Element != nil {
			return nft.DeleteElements{Set: op.Set, Elements: []nft.Element{*e.Element}}.String()
		}
		return "delete elements " + setText(op.Set)
	case nft.AddConnections:
		return "add elements " + setText(connectionsOf(op.Family))
	case nft.DeleteConnections:
		return "delete elements " + setText(connectionsOf(op.Family))
	default:
		return op.String()
	}
}

func setText(id nft.SetID) string {
	return nft.FamilyName(id.Family) + " " + nft.TableName() + " " + id.Name()
}

// serviceName is the name of the Service port, if any. For an element that was read from
// the kernel it is the comment.
func (e *Error) serviceName() string {
	if e.NamesService() {
		return e.Service.String()
	}
	if e.Element != nil {
		return e.Element.Comment
	}
	return ""
}

// NamesService reports whether the refused element is known to serve a Service port.
func (e *Error) NamesService() bool { return e.Service != model.ServicePortName{} }

// reason describes the errno in words that fit nf_tables.
func (e *Error) reason() string {
	if e.Errno == unix.ENFILE {
		return "the set is full"
	}
	return e.Errno.Error()
}

// Unwrap returns the errno, which is comparable to the errors of package fs.
func (e *Error) Unwrap() error { return e.Errno }

// A Cause is why the kernel refused a batch, and so what can be done.
type Cause uint8

// The causes of refusals.
const (
	// CauseObject means that the kernel does not support something in the batch. The
	// Service port must be skipped.
	CauseObject Cause = iota
	// CauseState means that the kernel does not hold the objects that the batch builds
	// on. The tables must be read again.
	CauseState
	// CauseMemory means that the kernel is out of memory. A smaller batch, or the same
	// one later, may be accepted.
	CauseMemory
	// CauseFull means that a set has as many elements as it declares. It must be rebuilt.
	CauseFull
	// CausePermission means that nothing may be changed.
	CausePermission
)

// Cause returns the meaning of the errno in nf_tables (net/netfilter/nf_tables_api.c,
// nfnetlink.c).
func (e *Error) Cause() Cause {
	switch e.Errno {
	case unix.ENOENT, unix.EEXIST, unix.EBUSY, unix.ERESTART:
		return CauseState
	case unix.ENOMEM, unix.ENOBUFS, unix.EINTR, unix.EAGAIN:
		return CauseMemory
	case unix.ENFILE:
		return CauseFull
	case unix.EPERM, unix.EACCES:
		return CausePermission
	}
	return CauseObject
}

// IsOutOfMemory reports whether the kernel refused for lack of memory, and so applied
// nothing of that transaction.
func IsOutOfMemory(err error) bool {
	var refusal *Error
	return errors.As(err, &refusal) && refusal.Cause() == CauseMemory
}

// Offenders returns the refusals that name a Service port which may have caused them: this
// one, and the others about things that the kernel does not support. If an element cannot
// be deleted, a Service port is not the cause.
func (e *Error) Offenders() []*Error {
	var out []*Error
	if cause := e.Cause(); e.isAddition() && cause != CauseMemory && cause != CausePermission {
		out = append(out, e)
	}
	for _, other := range e.Others {
		if other.isAddition() && other.Cause() == CauseObject {
			out = append(out, other)
		}
	}
	return out
}

// isAddition reports whether an element was refused that a Service port adds.
func (e *Error) isAddition() bool {
	_, adds := nft.AddsTo(e.Op)
	return adds && e.NamesService()
}

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
