package config

import "time"

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

// MasqueradeMark returns the packet mark that requests masquerading, the bit masqueradeBit.
func (c *Config) MasqueradeMark() uint32 { return 1 << *c.section().masqueradeBit }

// MasqueradeAll reports whether all traffic to ClusterIPs is masqueraded.
func (c *Config) MasqueradeAll() bool { return c.section().masqueradeAll }

// SyncPeriod returns half the time after which /healthz fails if a change has not reached
// the kernel.
func (c *Config) SyncPeriod() time.Duration { return c.section().syncPeriod }

// MinSyncPeriod returns the minimum time between two syncs.
func (c *Config) MinSyncPeriod() time.Duration { return c.section().minSyncPeriod }
