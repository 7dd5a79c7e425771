package model

// Scheduler is how an endpoint is chosen for a connection.
//
// One that narrows the endpoints instead of picking among them belongs in frontends.go
// (Options.pool) and reasons.go. One that picks in a new way needs, besides its constant
// and name here (the name in IPVS if IPVS has it, otherwise a new word):
//
//   - its annotation value in sync/source/convert/annotations.go, also in errUnknown
//   - its flag value in cmd/kube-vmap/config/flag_table.go
//   - its choice ([Pool.PicksOneOf]) and slots in weights.go (a hash has at most [MaxSlots]), and
//     its cost in budget.go if it takes a table
//   - a method in nft/chains.go, its expression in nft/pick.go, its probe in nft/sample.go, and in
//     nft/installed_read.go what a read of the kernel shows
//   - its notice in cmd/inspect/findings/port.go and nodestatus/reasons.go, if it is not random;
//     its name in nodestatus/document.go
//   - draws for tests in sync/source/convert/converttest/draw.go and sync/looptest/history.go, and
//     packets in integration/schedulers
type Scheduler uint8

// The schedulers.
const (
	// SchedulerDefault is the one that [Options] name.
	SchedulerDefault Scheduler = iota
	// SchedulerRandom gives every endpoint the same chance.
	SchedulerRandom
	// SchedulerRoundRobin takes one endpoint after the other.
	SchedulerRoundRobin
	// SchedulerSourceHash gives a client address the same endpoint as long as the list
	// of endpoints does not change.
	SchedulerSourceHash
	// SchedulerMaglev gives a flow the same endpoint on every node, and moves few flows
	// when endpoints change; see [MaglevTable].
	SchedulerMaglev
	// SchedulerLeastConnections gives endpoints with fewer active connections on this
	// node a larger share of the new ones; see [PoolShares].
	SchedulerLeastConnections
)

// String returns the scheduler's name in IPVS, where it has one.
func (s Scheduler) String() string { return nameOf(s, "Scheduler", schedulerNames[:]) }

// IsHash reports whether it chooses by the client's address.
func (s Scheduler) IsHash() bool { return s == SchedulerSourceHash || s == SchedulerMaglev }

var schedulerNames = [...]string{
	SchedulerDefault:          "default",
	SchedulerRandom:           "random",
	SchedulerRoundRobin:       "rr",
	SchedulerSourceHash:       "sh",
	SchedulerMaglev:           "mh",
	SchedulerLeastConnections: "lc",
}
