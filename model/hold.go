package model

// SetHoldOver ends the hold of these pools, by key: their clients have waited for [Pool].Hold. New
// connections get [VerdictReject] in place of [VerdictHold] until the cluster has an endpoint. Then
// the pool is forgotten, and its next outage is held again.
func (m *ServiceMap) SetHoldOver(keys []Match) {
	for _, key := range keys {
		if e := m.ownerOf(key); e != nil {
			set(&e.holdOver, key, struct{}{}, true)
		}
	}
}

// endHolds rejects connections to the frontends whose hold is over, and forgets pools without such
// frontends.
func (e *serviceEntry) endHolds() {
	var over map[Match]struct{}
	for i := range e.frontends {
		f := &e.frontends[i]
		if _, isOver := e.holdOver[f.Pool.Key]; isOver && f.Verdict == VerdictHold {
			f.Verdict = VerdictReject
			set(&over, f.Pool.Key, struct{}{}, true)
		}
	}
	e.holdOver = over
}
