package config

import (
	"cmp"

	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
	"kube-vmap/sync/convert"
)

// externalIPs is the gate without which spec.externalIPs is ignored (KEP-5707).
const externalIPs = "AllowServiceExternalIPs"

// Loop returns what the configuration means for the loop and its rules.
func (c *Config) Loop() (sync.Config, error) {
	name, err := c.NodeName()
	out := sync.Config{
		NodeName:      name,
		MasqueradeAll: c.MasqueradeAll(),
		Rules: nft.Config{
			MasqueradeMark:   c.MasqueradeMark(),
			Pods:             c.ClusterCIDRs(),
			Protect:          c.ProtectTables, // see node.DropUnsupported
			CountConnections: c.CountConnections,
			DropInvalid:      c.DropInvalid || node.DistrustsOldData() && !c.Proxy.Conntrack.TCPBeLiberal,
		},
		SyncPeriod:    c.SyncPeriod(),
		MinSyncPeriod: c.MinSyncPeriod(),

		NodePorts:          c.NodePorts(),
		NodeIPs:            c.NodeIPs(),
		Scheduler:          c.Scheduler(),
		StrictSourceRanges: c.StrictSourceRanges,
		IgnoreExternalIPs:  !c.Feature(externalIPs),
		TCPFlowEndpoints:   c.EndTCPFlows,
	}
	switch c.Proxy.DetectLocalMode {
	case LocalModeNodeCIDR:
		out.PodsFromNode = true
	case LocalModeBridgeInterface:
		out.Rules.PodInterface = nft.Interface{Name: c.Proxy.DetectLocal.BridgeInterface}
	case LocalModeInterfaceNamePrefix:
		out.Rules.PodInterface = nft.Interface{Name: c.Proxy.DetectLocal.InterfaceNamePrefix, Prefix: true}
	}
	return out, err
}

// Scheduler returns the scheduler of Services that name none: ipvs.scheduler, whatever
// the mode, or random.
func (c *Config) Scheduler() model.Scheduler {
	s, _ := convert.ParseScheduler(c.Proxy.IPVS.Scheduler)
	return cmp.Or(s, model.SchedulerRandom)
}
