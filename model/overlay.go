package model

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
