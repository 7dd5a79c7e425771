package sync

import (
	"context"
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// A Follower does what else must happen when the kernel has committed a change; see package follow.
type Follower interface {
	// Follow is called on the loop's goroutine, in order, and must not block.
	Follow(Committed)
}

// Committed is what the kernel has committed in one batch. It must not be changed.
type Committed struct {
	// Full reports that Set is complete, as at the start: everything else is removed. Removed then
	// has what the kernel still had.
	Full bool
	// Set are new or changed frontends, Removed are deleted ones.
	Set     []model.Frontend
	Removed []model.Match
	// HealthChecks are new, changed or, without a port, removed; all if Full.
	HealthChecks []model.HealthCheck
	// NodeAddrs are all addresses that serve node ports, sorted.
	NodeAddrs []netip.Addr
}

// poolsAtOnce limits a transaction.
const poolsAtOnce = 1000

// SendOverlays sends what a follower changes of pools to the loop. It waits while the loop is
// applying a batch.
func SendOverlays(ctx context.Context, to chan<- []model.Overlay, all []model.Overlay) {
	for some := range slices.Chunk(all, poolsAtOnce) {
		Send(ctx, to, some)
	}
}

// An AddressSource follows the addresses of the node's interfaces.
type AddressSource interface {
	// Run sends all addresses immediately, and again whenever they change, until ctx ends. Each
	// has the length of the prefix that is on its link. They are sorted, each once.
	Run(ctx context.Context, out chan<- []netip.Prefix) error
}
