package model

import (
	"net/netip"
	"slices"
)

// PassiveChecks is what to do about the endpoints of a Service that do not reply to this node's
// connections (passive health checks).
type PassiveChecks uint8

// What to do about unresponsive endpoints.
const (
	// PassiveChecksDefault is what [Options] name.
	PassiveChecksDefault PassiveChecks = iota
	// PassiveChecksOff does not look for them.
	PassiveChecksOff
	// PassiveChecksReport reports them.
	PassiveChecksReport
	// PassiveChecksAvoid reports them, and gives them no new connections as far as there are
	// others; see [ServiceMap.SetUnresponsive].
	PassiveChecksAvoid
)

// String returns the value that flags and annotations have, or "default".
func (c PassiveChecks) String() string { return nameOf(c, "PassiveChecks", passiveCheckNames[:]) }

var passiveCheckNames = [...]string{
	PassiveChecksDefault: "default", PassiveChecksOff: "off",
	PassiveChecksReport: "report", PassiveChecksAvoid: "avoid",
}

// ifOn returns zero for [PassiveChecksOff], or else c.
func (c PassiveChecks) ifOn() PassiveChecks {
	if c == PassiveChecksOff {
		return 0
	}
	return c
}

// UnresponsiveEndpoints are the unresponsive endpoints of one pool.
type UnresponsiveEndpoints struct {
	Key       Match            // of the pool
	Endpoints []netip.AddrPort // the strongest evidence first
}

// SetUnresponsive replaces the unresponsive endpoints of these pools; without endpoints, all of a
// pool are responsive again. Pools with [PassiveChecksAvoid] have them in [Pool].Avoided and not in
// their lists, as if their weight was zero: the first ones, at most [Options].MaxAvoidedPercent of
// a list, and never its last endpoint; or all, if endpoints of a worse priority serve. It forgets
// endpoints that the pool no longer has, and all of a pool that no longer has PassiveChecksAvoid.
func (m *ServiceMap) SetUnresponsive(all []UnresponsiveEndpoints) {
	for _, u := range all {
		e := m.ownerOf(u.Key)
		if e == nil {
			continue
		}
		set(&e.unresponsive, u.Key, u.Endpoints, len(u.Endpoints) > 0)
	}
}

// avoidUnresponsive takes the unresponsive endpoints out of the lists of the entry's pools, and
// forgets endpoints that are not in any list.
func (e *serviceEntry) avoidUnresponsive(maxPercent int) {
	e.unresponsive = use(e.frontends, e.unresponsive, func(p *Pool, all []netip.AddrPort) ([]netip.AddrPort, bool) {
		if p.PassiveChecks != PassiveChecksAvoid {
			return nil, false
		}
		all = slices.DeleteFunc(slices.Clone(all), func(a netip.AddrPort) bool {
			return !containsSorted(p.Cluster, a) && !containsSorted(p.Local, a) && !containsSorted(p.Avoided, a)
		})
		if len(all) > 0 {
			p.avoid(all, maxPercent)
		}
		return all, len(all) > 0
	})
}

func containsSorted(list []netip.AddrPort, a netip.AddrPort) bool {
	_, found := slices.BinarySearchFunc(list, a, netip.AddrPort.Compare)
	return found
}

// avoid moves endpoints from the pool's lists to Avoided.
func (p *Pool) avoid(unresponsive []netip.AddrPort, maxPercent int) {
	var avoided []netip.AddrPort
	p.Cluster, p.ClusterWeights, avoided = without(p.Cluster, p.ClusterWeights, unresponsive, maxPercent)
	p.Avoided = append(p.Avoided, avoided...)
	p.Local, p.LocalWeights, avoided = without(p.Local, p.LocalWeights, unresponsive, maxPercent)
	p.Avoided = append(p.Avoided, avoided...)
	slices.SortFunc(p.Avoided, netip.AddrPort.Compare)
	p.Avoided = slices.Compact(p.Avoided)
	p.ClusterShares, p.LocalShares = p.SharesOfWeights(false), p.SharesOfWeights(true)
}

// without returns copies of a list and its weights without the first unresponsive endpoints, and
// these, sorted: as many as may be avoided.
func without(list []netip.AddrPort, weights []uint16, unresponsive []netip.AddrPort, maxPercent int) (
	rest []netip.AddrPort, restWeights []uint16, avoided []netip.AddrPort,
) {
	most := min(len(list)*maxPercent/100, len(list)-1)
	for _, a := range unresponsive {
		if len(avoided) < most && containsSorted(list, a) {
			avoided = append(avoided, a)
		}
	}
	slices.SortFunc(avoided, netip.AddrPort.Compare)
	for i, a := range list {
		if containsSorted(avoided, a) {
			continue
		}
		rest = append(rest, a)
		if weights != nil {
			restWeights = append(restWeights, weights[i])
		}
	}
	switch {
	case len(avoided) == 0:
		return list, weights, nil
	case !slices.ContainsFunc(restWeights, func(w uint16) bool { return w != restWeights[0] }):
		restWeights = nil // all are equal
	}
	return rest, restWeights, avoided
}
