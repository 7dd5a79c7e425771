package model

// A HoldChange ends the hold of a pool, or begins it again.
type HoldChange struct {
	Key  Match // of the pool
	Over bool
}

// ChangeHolds ends the hold of pools, or begins it again. If it is over, new connections get
// [VerdictReject] in place of [VerdictHold] until the cluster has an endpoint. Then the pool is
// forgotten, and its next outage is held again.
func (m *ServiceMap) ChangeHolds(changes []HoldChange) {
	for _, c := range changes {
		if e := m.ownerOf(c.Key); e != nil {
			set(&e.holdOver, c.Key, struct{}{}, c.Over)
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
