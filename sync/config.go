package sync

import (
	"net/netip"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync/throttle"
)

// Config is the configuration of a [Loop].
type Config struct {
	NodeName string
	// Options are the cluster's. Their Budget and DetectsPods are set by the loop.
	model.Options
	Rules nft.Config
	// PodsFromNode takes Rules.Pods from the Node object and follows it (detect local mode
	// NodeCIDR).
	PodsFromNode bool

	// NodePorts selects the addresses that serve node ports, among those that Addresses
	// delivers. Without Addresses, node ports are not served.
	NodePorts NodePortAddresses
	Addresses AddressSource
	// NodeIPs override the primary addresses of the Node object, where they are valid.
	NodeIPs [len(model.Families)]netip.Addr

	// AnswerPings has addresses of Services answer echo requests, from an address of the node.
	AnswerPings bool

	// APIServer lists where this process reaches the API server, if it uses one.
	APIServer []netip.AddrPort

	// Overlays delivers what followers change of pools.
	Overlays chan []model.Overlay

	// CPUTime returns the processor time of the calling thread. With it, changes of a namespace
	// that take more than a tenth of one processor are postponed.
	CPUTime func() time.Duration

	Background *throttle.Budget // of all background work
	// DriftReader reads the kernel's tables to detect changes by other processes. Without
	// it, and if Rules.Protect is set, nothing is detected.
	DriftReader TableReader

	// SyncPeriod is the longest wait before a failed sync is retried; zero means 30 s.
	SyncPeriod time.Duration
	// MinSyncPeriod is the time between two syncs, at least. Changes meanwhile go into one
	// batch. Zero means none.
	MinSyncPeriod time.Duration
	// Observer, Recorder and Followers are notified of what happens. Observer and Recorder
	// may be nil.
	Observer  Observer
	Recorder  Recorder
	Followers []Follower
}

// Budget limits what authors of Services can make every node hold. An element takes
// about 143 bytes of kernel memory; the largest known cluster has 250,000 endpoints.
// docs/security.md and docs/limits.md name these limits.
var Budget = model.Budget{PerNamespace: 1_000_000, Total: 4_000_000}

// options returns the part of the configuration that the model needs.
func (c *Config) options() model.Options {
	o := c.Options
	o.Budget = Budget
	for _, f := range model.Families {
		o.DetectsPods[f] = c.Rules.DetectsPods(f)
	}
	return o
}
