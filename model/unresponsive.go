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
	// others; see [UnresponsiveEndpoints].
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

// UnresponsiveEndpoints are the unresponsive endpoints of one pool; without endpoints, all are
// responsive again. A pool with [PassiveChecksAvoid] has them in [Pool].Avoided and not in its
// lists, as if their weight was zero: the first ones, at most [Options].MaxAvoidedPercent of a
// list, and never its last endpoint; or all, if endpoints of a worse priority serve. Endpoints that
// the pool no longer has are forgotten, and all of a pool that no longer has PassiveChecksAvoid.
type UnresponsiveEndpoints struct {
	Key       Match            // of the pool
	Endpoints []netip.AddrPort // those with the most witnesses first
}

func (u UnresponsiveEndpoints) target() overlayTarget {
	return overlayTarget{u.Key, overlayUnresponsive}
}

func (u UnresponsiveEndpoints) apply(frontends []Frontend, o *Options) Overlay {
	p := frontends[0].Pool
	if p.PassiveChecks != PassiveChecksAvoid {
		return nil
	}
	u.Endpoints = slices.DeleteFunc(slices.Clone(u.Endpoints), func(a netip.AddrPort) bool {
		return !containsSorted(p.Cluster, a) && !containsSorted(p.Local, a) && !containsSorted(p.Avoided, a)
	})
	if len(u.Endpoints) == 0 {
		return nil
	}
	p.avoid(u.Endpoints, o.MaxAvoidedPercent)
	return u
}

// unresponsive returns the unresponsive endpoints of a pool.
func (e *serviceEntry) unresponsive(key Match) []netip.AddrPort {
	u, _ := e.overlays[overlayTarget{key, overlayUnresponsive}].(UnresponsiveEndpoints)
	return u.Endpoints
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
