package model

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
