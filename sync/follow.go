package sync

import (
	"context"
	"net/netip"

	"kube-vmap/model"
)

// Follower does what else follows from what the kernel has taken: flows that
// must end, servers that must listen.
type Follower interface {
	// Follow is called from the loop's goroutine, in order, and must not wait.
	Follow(Committed)
}

// Committed is what the kernel has taken in one batch.
type Committed struct {
	// Full tells that Set is everything there is, as at the start: what was
	// followed before and is not in it is gone.
	Full bool
	// Set are frontends that are new or changed, Gone those that are not there any
	// more; nothing of them must be changed.
	Set  []model.Frontend
	Gone []model.Match
	// HealthChecks are those that are new or changed, or gone, without a port then; if
	// Whole, all there are.
	HealthChecks []model.HealthCheck
	// NodeAddrs are all addresses that serve node ports now, sorted.
	NodeAddrs []netip.Addr
}

// AddressSource follows the addresses of the node's interfaces.
type AddressSource interface {
	// Run sends all addresses at once, and again whenever they change, until ctx
	// ends.
	Run(ctx context.Context, out chan<- []netip.Addr) error
}
