package wire

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
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
		return e.adding(id)
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

func (e *Error) adding(id nft.SetID) string {
	if e.Element != nil {
		return nft.AddElements{Set: id, Elements: []nft.Element{*e.Element}}.String()
	}
	return "add elements " + setText(id)
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
