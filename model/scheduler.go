package model

import "strconv"

// Scheduler is how an endpoint is chosen for a connection.
//
// A new one needs, besides its constant and name here: its annotation value in
// package sync/convert, its flag value in cmd/kube-vmap/config, and in package nft
// the rules that it compiles to and the code that recognizes them in the kernel
// (search for SchedulerMaglev).
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
)

// String returns the scheduler's name in IPVS, where it has one.
func (s Scheduler) String() string {
	switch s {
	case SchedulerDefault:
		return "default"
	case SchedulerRandom:
		return "random"
	case SchedulerRoundRobin:
		return "rr"
	case SchedulerSourceHash:
		return "sh"
	case SchedulerMaglev:
		return "mh"
	}
	return "Scheduler(" + strconv.Itoa(int(s)) + ")"
}
