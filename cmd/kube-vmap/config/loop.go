package config

import (
	"cmp"
	"time"

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
	checks, _ := convert.ParsePassiveChecks(c.PassiveHealthChecks)
	s := c.section()
	out := sync.Config{
		NodeName: name,
		Rules: nft.Config{
			MasqueradeMark:   c.MasqueradeMark(),
			Pods:             c.ClusterCIDRs(),
			Protect:          c.ProtectTables, // see node.DropUnsupported
			CountConnections: c.CountConnections,
			CountUnanswered:  true, // annotations of Services can ask for it
			DropInvalid:      c.DropInvalid || node.DistrustsOldData() && !c.Proxy.Conntrack.TCPBeLiberal,
		},
		SyncPeriod:    s.syncPeriod,
		MinSyncPeriod: s.minSyncPeriod,

		NodePorts: c.NodePorts(),
		NodeIPs:   c.NodeIPs(),
		Options: model.Options{
			MasqueradeAll:      s.masqueradeAll,
			Scheduler:          c.Scheduler(),
			StrictSourceRanges: c.StrictSourceRanges,
			IgnoreExternalIPs:  !c.Feature(externalIPs),
			TCPFlowEndpoints:   c.EndTCPFlows,
			PassiveChecks:      checks,
			MaxAvoidedPercent:  int(c.PassiveHealthChecksMaxPercent),
		},
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

// section has the settings of the selected mode that all modes have. As in kube-proxy,
// ipvs takes its marks from the section iptables.
type section struct {
	marks, periods string // names of their sections

	masqueradeBit             *int32
	masqueradeAll             bool
	syncPeriod, minSyncPeriod time.Duration
}

func (c *Config) section() section {
	p := &c.Proxy
	if p.Mode != ModeIPTables && p.Mode != ModeIPVS {
		n := &p.NFTables
		return section{
			"nftables", "nftables", n.MasqueradeBit, n.MasqueradeAll,
			n.SyncPeriod.Duration, n.MinSyncPeriod.Duration,
		}
	}
	i := &p.IPTables
	s := section{
		"iptables", "iptables", i.MasqueradeBit, i.MasqueradeAll,
		i.SyncPeriod.Duration, i.MinSyncPeriod.Duration,
	}
	if p.Mode == ModeIPVS {
		s.periods, s.syncPeriod, s.minSyncPeriod = "ipvs", p.IPVS.SyncPeriod.Duration, p.IPVS.MinSyncPeriod.Duration
	}
	return s
}

// MasqueradeMark returns the packet mark that requests masquerading, the bit masqueradeBit.
func (c *Config) MasqueradeMark() uint32 { return 1 << *c.section().masqueradeBit }
