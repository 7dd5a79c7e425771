package config

import "time"

// section is what the selected mode says about what all modes have. In
// kube-proxy, ipvs takes its marks from the section iptables.
type section struct {
	marks, periods string // names of the sections it was read from

	masqueradeBit             *int32
	masqueradeAll             bool
	syncPeriod, minSyncPeriod time.Duration
}

func (c *Config) section() section {
	p := &c.Proxy
	s := section{
		marks: "iptables", masqueradeBit: p.IPTables.MasqueradeBit, masqueradeAll: p.IPTables.MasqueradeAll,
		periods: "iptables", syncPeriod: p.IPTables.SyncPeriod.Duration, minSyncPeriod: p.IPTables.MinSyncPeriod.Duration,
	}
	switch p.Mode {
	case ModeIPTables:
	case ModeIPVS:
		s.periods, s.syncPeriod, s.minSyncPeriod = "ipvs", p.IPVS.SyncPeriod.Duration, p.IPVS.MinSyncPeriod.Duration
	default:
		s = section{
			marks: "nftables", masqueradeBit: p.NFTables.MasqueradeBit, masqueradeAll: p.NFTables.MasqueradeAll,
			periods: "nftables", syncPeriod: p.NFTables.SyncPeriod.Duration, minSyncPeriod: p.NFTables.MinSyncPeriod.Duration,
		}
	}
	return s
}

// MasqueradeMark is the packet mark that asks for masquerade: the one bit that
// masqueradeBit names.
func (c *Config) MasqueradeMark() uint32 { return 1 << *c.section().masqueradeBit }

// MasqueradeAll is whether all traffic to ClusterIPs is masqueraded.
func (c *Config) MasqueradeAll() bool { return c.section().masqueradeAll }

// SyncPeriod is half the time in which a change must have reached the kernel if
// /healthz is not to report failure.
func (c *Config) SyncPeriod() time.Duration { return c.section().syncPeriod }

// MinSyncPeriod is the least time between two syncs. Zero is none.
func (c *Config) MinSyncPeriod() time.Duration { return c.section().minSyncPeriod }
