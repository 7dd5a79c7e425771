package sync

import (
	"context"
	"net/netip"
	"time"

	"kube-vmap/model"
)

// A Source delivers objects of the API or of a folder as events.
type Source interface {
	// Run sends bursts of events until ctx ends, or fails. The first burst is the complete
	// initial state, even if that is empty; each later one holds related changes.
	Run(ctx context.Context, out chan<- []Event) error
}

// An Event is one change of an object, reduced to model values:
// [SetService], [DeleteService], [SetSlice], [DeleteSlice], [SetNode],
// [SetServiceCIDRs] or [SetProblem].
type Event interface{ event() }

// SetService adds or replaces a Service.
type SetService struct{ Service model.Service }

// DeleteService removes a Service that was deleted, or is no longer served by this proxy.
type DeleteService struct{ Name model.ServiceName }

// SetSlice adds or replaces an EndpointSlice.
type SetSlice struct {
	Slice model.EndpointSlice
	// Triggered is the time of the cause of this change, for instance of a pod becoming ready. It
	// is zero if unknown, or sent before. It is for metrics of latency, and not kept.
	Triggered time.Time
}

// DeleteSlice removes an EndpointSlice.
type DeleteSlice struct{ Name model.EndpointSliceName }

// SetNode replaces the proxy's own node. Without a Node object, it has only a name. The
// sources fill it with convert.Node and convert.Ineligible.
type SetNode struct {
	Node model.Node
	// Ineligible is why load balancers should not send new connections to this node, if
	// so (KEP-3836).
	Ineligible string
}

// SetServiceCIDRs replaces the prefixes of all ServiceCIDRs together.
type SetServiceCIDRs struct{ CIDRs []netip.Prefix }

// SetProblem replaces the problem of an object that cannot be used, wholly or in part.
// Every change of such an object sends one. A nil Err ends the problem.
type SetProblem struct {
	Object Object
	Err    error // the field of the first *field.Error in it is the object's
}

// An Object is a reference to an object of the API.
type Object struct {
	Kind, Namespace, Name string
	UID                   string // empty if unknown
}

// String returns "Kind namespace/name", or "Kind name".
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

func (SetService) event()      {}
func (DeleteService) event()   {}
func (SetSlice) event()        {}
func (DeleteSlice) event()     {}
func (SetNode) event()         {}
func (SetServiceCIDRs) event() {}
func (SetProblem) event()      {}

// Sleep waits, and reports false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Send sends a value, and reports false if ctx ended first.
func Send[T any](ctx context.Context, out chan<- T, value T) bool {
	select {
	case out <- value:
		return true
	case <-ctx.Done():
		return false
	}
}
