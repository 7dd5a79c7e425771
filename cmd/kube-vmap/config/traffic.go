package config

import (
	"cmp"

	"kube-vmap/model"
	"kube-vmap/sync/convert"
)

// externalIPs is the gate without which spec.externalIPs is not looked at
// (KEP-5707).
const externalIPs = "AllowServiceExternalIPs"

// Scheduler is that of Services which name none: what ipvs.scheduler says,
// whatever the mode, or random.
func (c *Config) Scheduler() model.Scheduler {
	s, _ := convert.ParseScheduler(c.Proxy.IPVS.Scheduler)
	return cmp.Or(s, model.SchedulerRandom)
}

// ServesExternalIPs tells whether the external IPs of Services are served.
func (c *Config) ServesExternalIPs() bool { return c.Feature(externalIPs) }

// StrictSourceRanges tells whether the source ranges of a Service, all of one
// family, close its load balancer's addresses of the other to everyone. In
// kube-proxy those are open.
func (c *Config) StrictSourceRanges() bool { return c.flags.strictSourceRanges }

// DropInvalid tells whether packets of endpoints that connection tracking cannot
// place are dropped; more says whether the kernel takes more for such than it
// should. In kube-proxy's mode iptables all such packets that are forwarded are
// dropped, in mode nftables none.
func (c *Config) DropInvalid(more bool) bool {
	return c.flags.dropInvalid || more && !c.Proxy.Conntrack.TCPBeLiberal
}

// ProtectTables tells whether our tables are to belong to this process, where the
// kernel can do that.
func (c *Config) ProtectTables() bool { return c.flags.protectTables }

// EndTCPFlows tells whether TCP connections are ended whose endpoint is gone. In
// kube-proxy they go on for as long as the endpoint answers.
func (c *Config) EndTCPFlows() bool { return c.flags.endTCPFlows }
