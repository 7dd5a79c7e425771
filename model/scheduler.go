package model

import (
	"cmp"
	"slices"
)

// Scheduler is how an endpoint is chosen for a connection.
//
// One that narrows the endpoints instead of picking among them belongs in frontends.go
// (Options.pool) and reasons.go. One that picks in a new way needs, besides its constant
// and name here (the name in IPVS if IPVS has it, otherwise a new word):
//
//   - its annotation value in sync/source/convert/annotations.go, also in the error
//   - its flag value in cmd/kube-vmap/config/flag_table.go
//   - its choice ([Pool.PicksOneOf]) and slots below (a hash has at most [MaxSlots]), and
//     its cost in budget.go if it takes a table
//   - a method in nft/chains.go, and if it is a hash another one for retries (also in
//     nft/compile.go), its expression in nft/pick.go, its probe in nft/sample.go, and in
//     nft/installed.go what a read of the kernel shows
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

// minManySlots and manySlotsPerEndpoint limit the slots of a port that needs more than
// [MaxSlots]: the larger of the two. More would make shares more exact, but cost
// elements.
const (
	minManySlots         = 1024
	manySlotsPerEndpoint = 4
)

func sum[T uint16 | int](numbers []T) int {
	n := 0
	for _, x := range numbers {
		n += int(x)
	}
	return n
}

// SharesOfWeights returns the shares that follow from the weights and steps, of the endpoints for
// local traffic or for traffic of the whole cluster.
func (p *Pool) SharesOfWeights(local bool) []uint16 {
	list := p.List(local)
	return list.Steps.divide(p.sharesFor(list.Weights))
}

// sharesFor returns how many slots endpoints with these weights take; nil means one each.
// Weights are reduced by their greatest common divisor. If their sum exceeds the maximum
// number of slots, shares only approximate the weights.
//
// [SchedulerMaglev] spreads endpoints by their weights itself, so their shares are nil.
func (p *Pool) sharesFor(weights []uint16) []uint16 {
	n := len(weights)
	switch by := p.PicksOneOf(n); {
	case n == 0 || by == SchedulerMaglev:
		return nil
	case by == SchedulerSourceHash:
		return reduceOrApportion(weights, MaxSlots)
	}
	return reduceOrApportion(weights, max(minManySlots, manySlotsPerEndpoint*n))
}

// PicksOneOf returns by what one of n slots is picked for a new client, if it is not at random.
// Hashes choose among a limited number of slots, too few for a Service with very many endpoints.
func (p *Pool) PicksOneOf(n int) Scheduler {
	switch s := p.Scheduler; {
	case p.Affinity > 0 || n < 2:
	case s == SchedulerRoundRobin, s == SchedulerSourceHash && n <= MaxSlots, s == SchedulerMaglev && n <= MaglevTableSize:
		return s
	}
	return SchedulerRandom
}

// reduceOrApportion returns the weights in lowest terms or, if their sum is more than most,
// that many slots in proportion.
func reduceOrApportion(weights []uint16, most int) []uint16 {
	divisor := commonDivisor(weights)
	out := make([]uint16, len(weights))
	for i, w := range weights {
		out[i] = w / divisor
	}
	if sum(out) > most {
		return Apportion(out, most)
	}
	return out
}

// commonDivisor returns the greatest common divisor of weights, 1 for an empty list.
func commonDivisor[W uint16 | int](weights []W) W {
	var a W
	for _, b := range weights {
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			break
		}
	}
	return max(a, 1)
}

// Apportion divides slots in proportion to weights by the method of the largest
// remainder, but with at least one slot for each weight above zero. There must be a slot for
// each of these, and at least one of them.
func Apportion[W uint16 | int](weights []W, slots int) []uint16 {
	out := make([]uint16, len(weights))
	total, left := sum(weights), slots
	// Each one that gets a whole slot for less leaves less to the others, so more of them
	// may be below one.
	for more := true; more; {
		more = false
		for i, w := range weights {
			if out[i] == 0 && w > 0 && int(w)*left < total {
				out[i], total, left, more = 1, total-int(w), left-1, true
			}
		}
	}
	type remainder struct{ i, size int }
	var remainders []remainder
	exact, rest := left, left
	for i, w := range weights {
		if out[i] > 0 || w == 0 {
			continue
		}
		out[i] = uint16(int(w) * exact / total)
		rest -= int(out[i])
		remainders = append(remainders, remainder{i, int(w) * exact % total})
	}
	slices.SortStableFunc(remainders, func(a, b remainder) int { return cmp.Compare(b.size, a.size) })
	for _, r := range remainders[:rest] {
		out[r.i]++
	}
	return out
}
