package model

import "net/netip"

// An Overlay is what a follower changes of one pool: [UnresponsiveEndpoints], [SlowStart], [PoolShares]
// or [HoldChange]. It stays in effect until another one of its kind replaces it, or the Service no
// longer has what it changes.
type Overlay interface {
	target() overlayTarget
	// apply changes the pool of the first frontend, or frontends of that pool. It returns what
	// remains in effect, or nil.
	apply(frontends []Frontend, o *Options) Overlay
}

type overlayTarget struct {
	pool Match // its key
	kind overlayKind
}

type overlayKind uint8

// The kinds of overlays, in the order in which they apply.
const (
	overlayUnresponsive overlayKind = iota
	overlaySlowStart                // of the endpoints that are not avoided
	overlayShares
	overlayHold
	overlayKinds
)

// SetOverlays changes pools. It skips pools that do not exist.
func (m *ServiceMap) SetOverlays(all []Overlay) {
	for _, o := range all {
		at := o.target()
		if f := m.claims.winners[at.pool]; f != nil {
			m.entry(f.Service.ServiceName).setOverlay(at, o)
		}
	}
}

func (e *serviceEntry) setOverlay(at overlayTarget, o Overlay) {
	if e.overlays == nil {
		e.overlays = map[overlayTarget]Overlay{}
	}
	e.overlays[at] = o
}

// applyOverlays changes the entry's frontends, and forgets overlays without effect.
func (e *serviceEntry) applyOverlays(o *Options) {
	all := e.overlays
	e.overlays = nil
	for i := range e.frontends {
		f := &e.frontends[i]
		if len(all) == 0 && f.Pool.SlowStart == 0 {
			continue
		}
		for kind := range overlayKinds {
			at := overlayTarget{f.Match, kind}
			overlay := all[at]
			if overlay == nil && kind == overlaySlowStart && e.overlays[at] == nil {
				overlay = SlowStart{Key: f.Match} // of a new pool
			}
			if overlay == nil || !f.IsClusterIP() {
				continue
			}
			// Of ports with one number, the first one gets the ClusterIP, and its pool is programmed.
			delete(all, at)
			if overlay = overlay.apply(e.frontends[i:], o); overlay != nil {
				e.setOverlay(at, overlay)
			}
		}
	}
}

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

// A HoldChange ends the hold of a pool, or begins it again. If it is over, new connections get
// [VerdictReject] in place of [VerdictHold] until the cluster has an endpoint. Then the pool is
// forgotten, and its next outage is held again.
type HoldChange struct {
	Key  Match  // of the pool
	UID  string // of its Service; the hold of a later one of that name is not affected
	Over bool
}

func (c HoldChange) target() overlayTarget { return overlayTarget{c.Key, overlayHold} }

func (c HoldChange) apply(frontends []Frontend, _ *Options) (rest Overlay) {
	for i := range frontends {
		f := &frontends[i]
		if c.Over && c.Key == f.Pool.Key && c.UID == f.Pool.UID && f.Verdict == VerdictHold {
			f.Verdict, rest = VerdictReject, c
		}
	}
	return rest
}
