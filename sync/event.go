package sync

import (
	"context"
	"net/netip"

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
// [SetService], [DeleteService], [SetSlice], [DeleteSlice], [SetNode] or
// [SetServiceCIDRs].
type Event interface{ event() }

// SetService says that a Service is now this.
type SetService struct{ Service model.Service }

// DeleteService says that a Service is gone, or is none of the proxy's
// business any more.
type DeleteService struct{ Name model.ServiceName }

// SetSlice says that an EndpointSlice is now this.
type SetSlice struct{ Slice model.Slice }

// DeleteSlice says that an EndpointSlice is gone.
type DeleteSlice struct{ Name model.SliceName }

// SetNode says what is now known of the proxy's own node. Without a Node
// object, only its name is known.
type SetNode struct{ Node model.Node }

// SetServiceCIDRs says from which ranges ClusterIPs are now taken, all
// ServiceCIDR objects together.
type SetServiceCIDRs struct{ CIDRs []netip.Prefix }

func (SetService) event()      {}
func (DeleteService) event()   {}
func (SetSlice) event()        {}
func (DeleteSlice) event()     {}
func (SetNode) event()         {}
func (SetServiceCIDRs) event() {}
