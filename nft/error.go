package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Error is the kernel's refusal of a batch, traced to what it refused. Nothing
// of that transaction was applied.
type Error struct {
	// Op is the refused change, nil if the batch was refused as a whole.
	Op Op
	// Service is the Service port that the refused element serves; the zero value if no
	// element was refused, or it is not known which.
	Service model.ServicePortName
	// Element is the refused element, nil if it was none or could not be told.
	Element *Element
	// Expression is the refused expression of a rule, by the kernel's name for
	// it; empty if it was no rule or could not be told.
	Expression string
	Errno      syscall.Errno
	// Message is the kernel's own explanation, where it gave one.
	Message string
	// Others are what else the kernel refused of the same transaction, which may be
	// only because of the first.
	Others []*Error
}

// Error names the refused command, as short as it can be said.
func (e *Error) Error() string {
	what := "batch"
	switch op := e.Op.(type) {
	case nil:
	case AddElements:
		what = "add " + e.elementText(op.Set, true)
	case AddEndpoints:
		what = "add " + e.elementText(op.Set, true)
	case DeleteElements:
		what = "delete " + e.elementText(op.Set, false)
	case AddConnections:
		what = "add " + e.elementText(SetID{Family: op.Family, Kind: SetConnections}, true)
	case DeleteConnections:
		what = "delete " + e.elementText(SetID{Family: op.Family, Kind: SetConnections}, false)
	default:
		what = op.String()
	}
	s := fmt.Sprintf("%s: %s", what, e.reason())
	if e.Message != "" {
		s += " (" + e.Message + ")"
	}
	if name := e.serviceName(); name != "" {
		s = "service " + name + ": " + s
	}
	return s
}

// serviceName is the name of the Service port, empty if there is none. That of an
// element which was read from the kernel is known by its comment only.
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

// reason is the errno in words that fit nf_tables.
func (e *Error) reason() string {
	if e.Errno == unix.ENFILE {
		return "the set is full"
	}
	return e.Errno.Error()
}

func (e *Error) elementText(id SetID, whole bool) string {
	if e.Element == nil {
		return "elements " + table(id.Family) + " " + id.Name()
	}
	return elements(id, []Element{*e.Element}, whole)
}

// Unwrap is the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Cause says who or what is to blame for a refusal, and so what can be done.
type Cause uint8

// The causes.
const (
	// CauseObject: the batch asks for something that the kernel does not do. What it
	// was refused at must be left out.
	CauseObject Cause = iota
	// CauseState: the kernel does not hold what the batch builds on. It must be read
	// again.
	CauseState
	// CauseMemory: there is none. A smaller batch, or the same one later, may be taken.
	CauseMemory
	// CauseFull: a set has as many elements as it declares. It must be made anew.
	CauseFull
	// CausePermission: there is none, for whatever was tried.
	CausePermission
)

// Cause is what the errno says in nf_tables (net/netfilter/nf_tables_api.c,
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

// Offenders are the refusals that name a Service port which may be to blame: this
// one, and of the others that came with it those for what the kernel does not do.
// Nobody is to blame for an element that cannot be deleted.
func (e *Error) Offenders() []*Error {
	var out []*Error
	if cause := e.Cause(); e.named() && cause != CauseMemory && cause != CausePermission {
		out = append(out, e)
	}
	for _, other := range e.Others {
		if other.named() && other.Cause() == CauseObject {
			out = append(out, other)
		}
	}
	return out
}

// named reports whether the error is about an element that some Service adds.
func (e *Error) named() bool {
	_, adds := e.Fills()
	return adds && e.NamesService()
}

// Fills is the set to which the refused command adds elements; false if it adds
// none.
func (e *Error) Fills() (id SetID, adds bool) {
	switch op := e.Op.(type) {
	case AddElements:
		return op.Set, true
	case AddEndpoints:
		return op.Set, true
	}
	return SetID{}, false
}

// Is makes what nf_tables reports with errno comparable to the errors of package
// fs.
func (e *Error) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e.Errno == unix.ENOENT
	case fs.ErrExist:
		return e.Errno == unix.EEXIST
	case fs.ErrPermission:
		return e.Errno == unix.EPERM || e.Errno == unix.EACCES
	}
	return false
}

// Explain says what the kernel's refusal of message number sequence is about.
// offset is where in that message the kernel saw the fault, zero if it did not
// say (netlink's extended acknowledgement).
func (e *Encoded) Explain(sequence, offset uint32, errno syscall.Errno, message string) *Error {
	out := &Error{Errno: errno, Message: message}
	if sequence == 0 || int(sequence) > len(e.marks) {
		return out
	}
	m := e.marks[sequence-1]
	out.Op = e.batch[m.op]
	var list []Element
	switch op := out.Op.(type) {
	case AddElements:
		list = op.Elements
	case AddEndpoints:
		list = op.Elements()
	case DeleteElements:
		list = op.Elements
	case AddRule:
		// And not the map that belongs to it.
		if kind := binary.NativeEndian.Uint16(e.Bytes[m.offset+4:]); kind&0xff == unix.NFT_MSG_NEWRULE {
			out.Expression = expressionAt(e.Bytes[m.offset:], int(offset))
		}
		return out
	default:
		return out
	}
	if i := elementAt(e.Bytes[m.offset:], int(offset)); i >= 0 && m.element+i < len(list) {
		el := &list[m.element+i]
		out.Element = el
		if el.Service != nil {
			out.Service = *el.Service
		}
	}
	return out
}

// elementAt is the number of the element of a message that an offset points to,
// negative if it points to something before them: the name of a table or set
// that is not there is no element's fault. Ends of intervals count as elements
// too, so in an interval set the result may be too high; those hold no Services.
func elementAt(message []byte, offset int) int {
	n, end := 0, int(binary.NativeEndian.Uint32(message))
	at := headerLen + nfHeaderLen
	for at+attrLen <= end {
		length := int(binary.NativeEndian.Uint16(message[at:]))
		kind := binary.NativeEndian.Uint16(message[at+2:]) &^ unix.NLA_F_NESTED
		if kind == unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			at, end = at+attrLen, min(end, at+length)
			break
		}
		at += (length + 3) &^ 3
	}
	if offset < at {
		return -1
	}
	for at+attrLen <= end {
		length := int(binary.NativeEndian.Uint16(message[at:]))
		if at += (length + 3) &^ 3; at > offset {
			return n
		}
		n++
	}
	return n
}
