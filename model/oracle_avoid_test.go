package model

import (
	"net/netip"
	"slices"
)

// oracleAvoid takes unresponsive endpoints out of the winners' pools. It returns by
// Service the addresses that do not count in its health check.
func (c *cluster) oracleAvoid(winners map[Match]Frontend) map[ServiceName]map[netip.Addr]bool {
	missing := map[ServiceName]map[netip.Addr]bool{}
	for key, unresponsive := range c.unresponsive {
		f, exists := winners[key]
		if !exists || f.Kind != KindClusterIP || f.Pool.PassiveChecks != PassiveChecksAvoid {
			continue
		}
		if missing[f.Service.ServiceName] == nil {
			missing[f.Service.ServiceName] = map[netip.Addr]bool{}
		}
		for _, a := range unresponsive {
			if slices.Contains(f.Pool.Cluster, a) || slices.Contains(f.Pool.Local, a) || slices.Contains(f.Pool.Avoided, a) {
				missing[f.Service.ServiceName][a.Addr()] = true
			}
		}
		p := f.Pool
		p.oracleAvoid(&p.Cluster, &p.ClusterWeights, &p.ClusterShares, unresponsive, c.options.MaxAvoidedPercent)
		p.oracleAvoid(&p.Local, &p.LocalWeights, &p.LocalShares, unresponsive, c.options.MaxAvoidedPercent)
		slices.SortFunc(p.Avoided, netip.AddrPort.Compare)
		p.Avoided = slices.Compact(p.Avoided)
	}
	return missing
}

// oracleAvoid moves endpoints from one of the pool's lists to Avoided, the first unresponsive
// ones, as long as another one remains and the limit allows one more.
func (p *Pool) oracleAvoid(list *[]netip.AddrPort, weights, shares *[]uint16, unresponsive []netip.AddrPort, percent int) {
	all, left := float64(len(*list)), slices.Clone(*list)
	of := map[netip.AddrPort]uint16{}
	for i := range *weights {
		of[(*list)[i]] = (*weights)[i]
	}
	for _, a := range unresponsive {
		removed := all - float64(len(left))
		if len(left) > 1 && slices.Contains(left, a) && 100*(removed+1) <= all*float64(percent) {
			left = slices.DeleteFunc(left, func(b netip.AddrPort) bool { return b == a })
			p.Avoided = append(p.Avoided, a)
		}
	}
	*weights = nil
	for _, a := range left {
		if len(of) > 0 {
			*weights = append(*weights, of[a])
		}
	}
	if len(slices.Compact(slices.Clone(*weights))) < 2 {
		*weights = nil
	}
	*list, *shares = left, p.sharesFor(*weights)
}
