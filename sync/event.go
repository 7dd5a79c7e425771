package sync

import (
	"context"
	"net/netip"
	"time"

	"kube-vmap/model"
)

// Source delivers what the API or a folder says, as changes.
type Source interface {
	// Run sends bursts of events until ctx ends or the source can deliver no
	// more, which is an error. The first burst holds the complete initial state,
	// even if that is nothing; each later burst holds what belongs together.
	Run(ctx context.Context, out chan<- []Event) error
}

// Event is one change of what the proxy reads, reduced to model values:
// [SetService], [DeleteService], [SetSlice], [DeleteSlice], [SetNode],
// [SetServiceCIDRs] or [SetProblem].
type Event interface{ event() }

// SetService says that a Service is now this.
type SetService struct{ Service model.Service }

// DeleteService says that a Service is gone, or is none of the proxy's
// business any more.
type DeleteService struct{ Name model.ServiceName }

// SetSlice says that an EndpointSlice is now this.
type SetSlice struct {
	Slice model.EndpointSlice
	// Triggered is when what led to this change of the slice happened, a pod that
	// became ready for instance; zero if that is not known, or was told before.
	Triggered time.Time
}

// DeleteSlice says that an EndpointSlice is gone.
type DeleteSlice struct{ Name model.EndpointSliceName }

// SetNode says what is now known of the proxy's own node. Without a Node
// object, only its name is known.
type SetNode struct {
	Node model.Node
	// Ineligible says why load balancers should not send new connections to this
	// node (KEP-3836); empty if they may.
	Ineligible string
}

// SetServiceCIDRs says from which ranges ClusterIPs are now taken, all
// ServiceCIDR objects together.
type SetServiceCIDRs struct{ CIDRs []netip.Prefix }

// SetProblem says what keeps an object, or part of it, from being used. It comes
// with every change of such an object, and once with a nil Err when nothing does
// any more.
type SetProblem struct {
	Object Object
	Err    error
}

// Object refers to an object of the API.
type Object struct {
	Kind, Namespace, Name string
	UID                   string // empty if it is not known
}

// String is "Kind namespace/name".
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
