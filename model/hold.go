package model

// A HoldChange ends the hold of a pool, or begins it again.
type HoldChange struct {
	Key  Match  // of the pool
	UID  string // of its Service; the hold of a later one of that name is not affected
	Over bool
}

// ChangeHolds ends the hold of pools, or begins it again. If it is over, new connections get
// [VerdictReject] in place of [VerdictHold] until the cluster has an endpoint. Then the pool is
// forgotten, and its next outage is held again.
func (m *ServiceMap) ChangeHolds(changes []HoldChange) {
	for _, c := range changes {
		if e := m.ownerOf(c.Key); e != nil {
			set(&e.holdOver, c.Key, c.UID, c.Over)
		}
	}
}

// endHolds rejects connections to the frontends whose hold is over, and forgets pools without such
// frontends.
func (e *serviceEntry) endHolds() {
	var over map[Match]string
	for i := range e.frontends {
		f := &e.frontends[i]
		if uid, isOver := e.holdOver[f.Pool.Key]; isOver && uid == f.Pool.UID && f.Verdict == VerdictHold {
			f.Verdict = VerdictReject
			set(&over, f.Pool.Key, uid, true)
		}
	}
	e.holdOver = over
}
