package model

import "net/netip"

// SharesPerEndpoint is how many slots for each endpoint are shared by active connections,
// up to [MaxSlots] together: a share can be a quarter of the fair one.
const SharesPerEndpoint = 4

// PoolShares are how many slots the endpoints of one pool take, if its scheduler is
// [SchedulerLeastConnections]. Shares that do not fit the endpoints are dropped, now or when the
// endpoints change.
type PoolShares struct {
	// Key is the pool's key.
	Key            Match
	Cluster, Local ListShares
}

// ListShares are the endpoints in a list of a pool with their weights and shares. To set shares,
// they count only as long as the pool has exactly these endpoints and weights.
type ListShares struct {
	Endpoints []netip.AddrPort
	Weights   []uint16
	// Shares has one number for each endpoint; nil means the shares that follow from
	// weights and steps.
	Shares []uint16
	Steps  Steps // may change while shares stay
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

func (s PoolShares) target() overlayTarget { return overlayTarget{s.Key, overlayShares} }

func (s PoolShares) apply(frontends []Frontend, _ *Options) Overlay {
	p := frontends[0].Pool
	if p.Scheduler != SchedulerLeastConnections {
		return nil
	}
	s.Cluster.apply(p.Cluster, p.ClusterWeights, &p.ClusterShares)
	s.Local.apply(p.Local, p.LocalWeights, &p.LocalShares)
	if s.Cluster.Shares == nil && s.Local.Shares == nil {
		return nil
	}
	return s
}
