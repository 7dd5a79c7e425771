package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
	"kube-vmap/sync/source/convert"
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
			PassiveHealth:    true, // annotations of Services can ask for it
			DropInvalid:      c.DropInvalid || node.CallsOldDataInvalid() && !c.Proxy.Conntrack.TCPBeLiberal,
		},
		SyncPeriod:    s.syncPeriod,
		MinSyncPeriod: s.minSyncPeriod,

		NodePorts:   c.NodePorts(),
		NodeIPs:     c.NodeIPs(),
		AnswerPings: c.AnswerPings,
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

// Words in nodePortAddresses, as in kube-proxy 1.37.
const (
	// all is every address of the node except loopback ones.
	all = "all"
	// primary is the node's own address of each family.
	primary = "primary"
	// localhost is the loopback addresses (KEP-6032).
	localhost = "localhost"
)

// loopback are the addresses that the word localhost makes NodePorts of TCP answer on.
var loopback = [len(model.Families)]netip.Addr{
	model.IPv4: netip.AddrFrom4([4]byte{127, 0, 0, 1}), model.IPv6: netip.IPv6Loopback(),
}

// expand returns the ranges of an item of nodePortAddresses. primary has none: its
// addresses are in the Node object.
func expand(item string) []netip.Prefix {
	switch item {
	case all:
		return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	case localhost:
		return []netip.Prefix{
			netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8), netip.PrefixFrom(netip.IPv6Loopback(), 128),
		}
	}
	if r, err := convert.ParsePrefix(nil, item); err == nil {
		return []netip.Prefix{r}
	}
	return nil
}

// NodePorts returns the addresses of the node on which NodePorts answer. localhost is
// included as its ranges: alone, it excludes all addresses of the node's interfaces.
func (c *Config) NodePorts() sync.NodePortAddresses {
	var out sync.NodePortAddresses
	for _, item := range c.Proxy.NodePortAddresses {
		out.Primary = out.Primary || item == primary
		out.Prefixes = append(out.Prefixes, expand(item)...)
	}
	return out
}

// LocalhostNodePorts reports for each family whether NodePorts of TCP answer on 127.0.0.1 or ::1:
// if a loopback range, or the word localhost, includes it, and the feature gate is not disabled. As
// in kube-proxy, ranges that include every address do not count.
func (c *Config) LocalhostNodePorts() (served [len(model.Families)]bool) {
	if !c.Feature(localhostGate) {
		return served
	}
	for _, r := range c.NodePorts().Prefixes {
		f := model.FamilyOf(r.Addr())
		served[f] = served[f] || r.Addr().IsLoopback() && r.Contains(loopback[f])
	}
	return served
}

// NodeIPs returns addresses that replace the node's primary ones in its Node object:
// bindAddress, in its family, unless it is unspecified. Nothing listens on them.
func (c *Config) NodeIPs() [len(model.Families)]netip.Addr {
	var out [len(model.Families)]netip.Addr
	if addr, err := convert.ParseAddr(nil, c.Proxy.BindAddress); err == nil && !addr.IsUnspecified() {
		out[model.FamilyOf(addr)] = addr
	}
	return out
}

// nodePortWarnings returns warnings about addresses on which NodePorts answer or do not
// answer unexpectedly.
func (c *Config) nodePortWarnings() []string {
	var out []string
	name := c.name("nodePortAddresses")
	served := c.LocalhostNodePorts()
	for _, item := range c.Proxy.NodePortAddresses {
		for _, r := range expand(item) {
			if f := model.FamilyOf(r.Addr()); r.Addr().IsLoopback() && !(served[f] && r.Contains(loopback[f])) {
				out = append(out, fmt.Sprintf("%s: NodePorts do not answer on %s; %s", name, r, c.localhostRemedy(f)))
			}
		}
	}
	out = append(out, c.iptablesLocalhost()...)
	n, pods := c.NodePorts(), c.ClusterCIDRs()
	for _, f := range model.Families {
		limited := func(r netip.Prefix) bool { return model.FamilyOf(r.Addr()) == f }
		if pods[f].IsValid() && !n.Primary && !slices.ContainsFunc(n.Prefixes, limited) {
			out = append(out, fmt.Sprintf("%s: has no range of family %s, so NodePorts answer on all such addresses of the "+
				"node", name, f))
		}
	}
	return out
}

// localhostRemedy returns what makes NodePorts answer on a loopback address.
func (c *Config) localhostRemedy(f model.Family) string {
	if !c.Feature(localhostGate) {
		return fmt.Sprintf("the feature gate %s is disabled", localhostGate)
	}
	return fmt.Sprintf("of loopback addresses, only NodePorts of TCP on %s can", loopback[f])
}

// iptablesLocalhost returns a warning if kube-proxy in mode iptables serves NodePorts on
// 127.0.0.1, as it does by default, and this configuration does not.
func (c *Config) iptablesLocalhost() []string {
	included := func(r netip.Prefix) bool { return r.Contains(loopback[model.IPv4]) }
	if c.Proxy.Mode != ModeIPTables || !*c.Proxy.IPTables.LocalhostNodePorts || c.LocalhostNodePorts()[model.IPv4] ||
		!c.nodePortsUnset && !slices.ContainsFunc(c.NodePorts().Prefixes, included) {
		return nil
	}
	return []string{fmt.Sprintf("%s: NodePorts do not answer on %s; in that mode of kube-proxy they do, "+
		"as NodePorts of TCP do here with the word localhost in %s", c.name("mode"), loopback[model.IPv4],
		c.name("nodePortAddresses"))}
}
