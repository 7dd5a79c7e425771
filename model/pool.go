package model

import (
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Pool is what stands behind one Service port in one family. All frontends of
// the port share it, so that a client finds the same endpoints, and is
// remembered, whichever address it asks.
//
// Slices are shared and must not be changed.
type Pool struct {
	// Key is the Match of the ClusterIP; it names the pool.
	Key Match
	// UID is that of the Service, for events about it. It says nothing of traffic.
	UID string
	// Cluster serves traffic under [PolicyCluster], Local under [PolicyLocal];
	// sorted, without duplicates, and empty where no frontend asks for it.
	Cluster, Local []netip.AddrPort
	// Hairpin lists the endpoint addresses on this node. A connection from one
	// of them to itself must be masqueraded, or its answer would never pass the
	// node and be translated back. Sorted, without duplicates.
	Hairpin []netip.Addr
	// Scheduler says how an endpoint is chosen for a connection.
	Scheduler Scheduler
	// Affinity is how long a client keeps its endpoint after its last new
	// connection; zero means no affinity.
	Affinity time.Duration
	// FlowEndpoints are the endpoints that established flows may go on using: all that
	// serve, whatever hints and policies say. Only of UDP, whose flows
	// nobody else ends, and of TCP with [Options].EndTCP; sorted, without
	// duplicates.
	FlowEndpoints []netip.AddrPort
}

// list are the endpoints for traffic under a policy.
func (p *Pool) list(policy TrafficPolicy) []netip.AddrPort {
	if policy == PolicyLocal {
		return p.Local
	}
	return p.Cluster
}

// equal reports whether both pools mean the same.
func (p *Pool) equal(o *Pool) bool {
	return p.looksLike(o) && p.Affinity == o.Affinity &&
		sameList(p.Cluster, o.Cluster) && sameList(p.Local, o.Local) &&
		sameList(p.Hairpin, o.Hairpin)
}

// looksLike reports whether both pools mean the same to a frontend that only
// leads there.
func (p *Pool) looksLike(o *Pool) bool {
	return p.Key == o.Key && p.Scheduler == o.Scheduler && (p.Affinity > 0) == (o.Affinity > 0) &&
		len(p.Cluster) == len(o.Cluster) && len(p.Local) == len(o.Local) &&
		sameList(p.FlowEndpoints, o.FlowEndpoints)
}

// sameList reports whether both lists have the same in them. Many are one and the
// same list, which nobody changes.
func sameList[T comparable](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// Scheduler says how an endpoint is chosen for a connection.
type Scheduler uint8

// The schedulers.
const (
	// SchedulerDefault stands for what [Options] say.
	SchedulerDefault Scheduler = iota
	// SchedulerRandom gives every endpoint the same chance.
	SchedulerRandom
	// SchedulerRoundRobin takes one endpoint after the other.
	SchedulerRoundRobin
	// SchedulerSourceHash gives a client's address the same endpoint for as long as the
	// endpoints stay as they are.
	SchedulerSourceHash
	// SchedulerMaglev gives a flow the same endpoint on every node, and moves few flows
	// when endpoints change; see [MaglevTable].
	SchedulerMaglev
)

// String is the scheduler's name as IPVS has it, where it has one.
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
