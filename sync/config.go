package sync

import (
	"net/netip"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// Config is what a [Loop] is told once.
type Config struct {
	NodeName string
	// MasqueradeAll masquerades every connection to a ClusterIP.
	MasqueradeAll bool
	Rules         nft.Config
	// PodsFromNode takes Rules.Pods from the Node object and follows it (detect
	// local mode NodeCIDR).
	PodsFromNode bool

	// NodePorts says which of the node's addresses serve node ports; Addresses
	// follows what addresses there are. Without it, none does.
	NodePorts NodePortAddresses
	Addresses AddressSource
	// NodeIPs replace the primary addresses that the Node object names, where they
	// are valid.
	NodeIPs [len(model.Families)]netip.Addr
	// Scheduler is that of Services which name none; zero means random.
	Scheduler model.Scheduler
	// StrictSourceRanges closes the load balancer addresses of a family in which a
	// Service names no source ranges while it names some in the other.
	StrictSourceRanges bool
	// IgnoreExternalIPs does without the external IPs of Services (feature gate
	// AllowServiceExternalIPs, KEP-5707).
	IgnoreExternalIPs bool
	// EndTCP makes pools name the flows of TCP, too, for whoever ends those of
	// endpoints that are gone.
	EndTCP bool

	// DriftReader reads the kernel in another goroutine, to find out what others did to our
	// tables. Without it, and where Rules.Protect them, nobody looks.
	DriftReader TableReader

	// SyncPeriod is how long what failed waits before it is tried again, at most;
	// zero means 30 s.
	SyncPeriod time.Duration
	// MinSyncPeriod is how long the kernel is left alone after each batch; what
	// happens meanwhile is in the next one. Zero means not at all.
	MinSyncPeriod time.Duration
	// Observer and Recorder are told what happens; nil means nobody is. Followers
	// are told what the kernel has taken.
	Observer  Observer
	Recorder  Recorder
	Followers []Follower
}

// budget is what authors of Services may have every node hold. An element takes about
// 143 bytes of the kernel; the largest cluster known has 250,000 endpoints.
var budget = model.Budget{PerNamespace: 1_000_000, Total: 4_000_000, AffinityEndpoints: 2_000}

// options are what the model needs of it.
func (c *Config) options() model.Options {
	o := model.Options{
		Budget:        budget,
		MasqueradeAll: c.MasqueradeAll, Scheduler: c.Scheduler, StrictSourceRanges: c.StrictSourceRanges,
		IgnoreExternalIPs: c.IgnoreExternalIPs, TCPFlowEndpoints: c.EndTCP,
	}
	for _, f := range model.Families {
		o.DetectsPods[f] = c.Rules.DetectsPods(f)
	}
	return o
}
