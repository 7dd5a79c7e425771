package model

import (
	"net/netip"
	"slices"
)

// SharesPerEndpoint is how many slots for each endpoint are shared by active connections,
// up to [MaxSlots] together: a share can be a quarter of the fair one.
const SharesPerEndpoint = 4

// PoolShares are how many slots the endpoints of one pool take, where that is decided by
// other means than weights.
type PoolShares struct {
	// Key is that of the pool.
	Key            Match
	Cluster, Local ListShares
}

// ListShares are the endpoints in a list of a pool with their weights and shares. To set shares,
// they count only as long as the pool has exactly these endpoints and weights.
type ListShares struct {
	Endpoints []netip.AddrPort
	Weights   []uint16
	// Shares has one number for each endpoint; nil means those that follow from weights.
	Shares []uint16
}

// apply replaces the shares in effect if these are for the same endpoints and weights, or
// else drops them.
func (s *ListShares) apply(endpoints []netip.AddrPort, weights []uint16, shares *[]uint16) {
	if !equalLists(s.Endpoints, endpoints) || !equalLists(s.Weights, weights) {
		s.Shares = nil
	}
	if s.Shares != nil {
		*shares = s.Shares
	}
}

// SetShares sets the shares of pools whose scheduler is [SchedulerLeastConnections].
// Those that do not fit the current endpoints are dropped, and those that fit are when
// endpoints change.
func (m *ServiceMap) SetShares(all []PoolShares) {
	for _, s := range all {
		e := m.ownerOf(s.Key)
		if e == nil {
			continue
		}
		e.shares = slices.DeleteFunc(e.shares, func(o PoolShares) bool { return o.Key == s.Key })
		if s.Cluster.Shares != nil || s.Local.Shares != nil {
			e.shares = append(e.shares, s)
		}
	}
}

// ownerOf returns the entry that has the pool of that key and marks it as changed; nil if
// there is no such pool.
func (m *ServiceMap) ownerOf(key Match) *serviceEntry {
	if f := m.claims.winners[key]; f != nil {
		return m.entry(f.Service.ServiceName)
	}
	return nil
}

// useShares gives the shares to the pools of the entry's frontends, and drops those that
// do not fit any more.
func (e *serviceEntry) useShares() {
	var used []PoolShares
	for _, s := range e.shares {
		p := e.pool(s.Key)
		if p == nil || p.Scheduler != SchedulerLeastConnections {
			continue
		}
		s.Cluster.apply(p.Cluster, p.ClusterWeights, &p.ClusterShares)
		s.Local.apply(p.Local, p.LocalWeights, &p.LocalShares)
		used = append(used, s)
	}
	e.shares = used
}
