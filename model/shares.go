package model

import (
	"net/netip"
)

// SharesPerEndpoint is how many slots for each endpoint are shared by active connections,
// up to [MaxSlots] together: a share can be a quarter of the fair one.
const SharesPerEndpoint = 4

// PoolShares are how many slots the endpoints of one pool take, if something else than
// weights decides.
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
	// weights.
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
// Shares that do not fit the endpoints are dropped, now or when the endpoints change.
func (m *ServiceMap) SetShares(all []PoolShares) {
	for _, s := range all {
		e := m.ownerOf(s.Key)
		if e == nil {
			continue
		}
		set(&e.shares, s.Key, s, s.Cluster.Shares != nil || s.Local.Shares != nil)
	}
}

// set sets or deletes the entry of a pool.
func set[V any](of *map[Match]V, key Match, v V, keep bool) {
	switch {
	case !keep:
		delete(*of, key)
	case *of == nil:
		*of = map[Match]V{key: v}
	default:
		(*of)[key] = v
	}
}

// ownerOf marks the entry that has the pool of that key as changed and returns it, or
// nil.
func (m *ServiceMap) ownerOf(key Match) *serviceEntry {
	if f := m.claims.winners[key]; f != nil {
		return m.entry(f.Service.ServiceName)
	}
	return nil
}

// useShares gives the shares to the pools of the entry's frontends, and drops shares that
// no longer fit.
func (e *serviceEntry) useShares() {
	e.shares = use(e.frontends, e.shares, func(p *Pool, s PoolShares) (PoolShares, bool) {
		if p.Scheduler != SchedulerLeastConnections {
			return s, false
		}
		s.Cluster.apply(p.Cluster, p.ClusterWeights, &p.ClusterShares)
		s.Local.apply(p.Local, p.LocalWeights, &p.LocalShares)
		return s, true
	})
}

// use applies the entries of pools to them, and returns those that are still useful.
func use[V any](frontends []Frontend, known map[Match]V, apply func(*Pool, V) (V, bool)) (used map[Match]V) {
	if len(known) == 0 {
		return nil
	}
	for i := range frontends {
		f := &frontends[i]
		v, has := known[f.Match]
		if !has || !f.IsClusterIP() {
			continue
		}
		// Of ports with one number, the first one gets the ClusterIP, and its pool is programmed.
		delete(known, f.Match)
		v, keep := apply(f.Pool, v)
		set(&used, f.Match, v, keep)
	}
	return used
}
