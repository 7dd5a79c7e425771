package model

import (
	"net/netip"
	"slices"
	"time"
)

// Pool holds the endpoints of one Service port in one family. All frontends of the port
// share it: a client reaches the same endpoint, and its affinity holds, whichever of the
// addresses it uses.
//
// Its slices are sorted, without duplicates, shared, and must not be changed.
type Pool struct {
	// Key is the Match of the ClusterIP. It identifies the pool.
	Key Match
	// Cluster is for traffic under [PolicyCluster], Local for [PolicyLocal]. Each is
	// empty if no frontend needs it.
	Cluster, Local []netip.AddrPort
	// ClusterWeights and LocalWeights are the weights of these endpoints; nil if all are
	// equal. The lists omit endpoints of weight zero and avoided ones.
	ClusterWeights, LocalWeights []uint16
	// ClusterShares and LocalShares are how many slots each of these endpoints takes; a
	// connection gets one slot. Nil means one each. They follow from the weights, unless
	// the scheduler decides them by other means.
	ClusterShares, LocalShares []uint16
	// ClusterSteps and LocalSteps are their steps during a SlowStart, which is zero for a hash.
	ClusterSteps, LocalSteps Steps
	SlowStart                time.Duration
	// Hairpin lists the endpoint addresses on this node; with a Hold also ones that only clients of other
	// nodes reach. A connection from one of them to itself must be masqueraded, or else its replies
	// would stay within the pod and their addresses would not be translated back.
	Hairpin []netip.Addr
	// Scheduler chooses the endpoint of a connection.
	Scheduler Scheduler
	// Affinity is how long a client keeps its endpoint after its last new connection;
	// zero means no affinity. It is one of 24 times; see [AffinityTimeout].
	Affinity time.Duration
	// Hold is as in [Service]; so is RetryRefused, for TCP only.
	Hold         time.Duration
	RetryRefused bool

	// The following is for followers, and does not affect traffic. UID and ScaleToZero are as in
	// [Service].

	UID         string
	ScaleToZero bool
	// PassiveChecks is what to do about unresponsive endpoints; zero for nothing.
	PassiveChecks PassiveChecks
	// Avoided are endpoints that would be in Cluster or Local, but are missing in one of
	// them because they are unresponsive. Endpoints that stand by may have taken their place.
	Avoided []netip.AddrPort
	// StandBy are ready endpoints of other priorities, if PassiveChecks is not zero: their replies
	// show that this node works.
	StandBy []netip.AddrPort
	// FlowEndpoints are the endpoints that established flows may continue to use: all
	// that serve, whatever hints and policies select for new ones. They are listed for
	// UDP, whose flows do not end by themselves, for TCP if [Options].TCPFlowEndpoints
	// or RetryRefused is set, and for all protocols with a Hold.
	FlowEndpoints []netip.AddrPort
}

// List returns the endpoints for local traffic or for traffic of the whole cluster.
func (p *Pool) List(local bool) ListShares {
	if local {
		return ListShares{p.Local, p.LocalWeights, p.LocalShares, p.LocalSteps}
	}
	return ListShares{p.Cluster, p.ClusterWeights, p.ClusterShares, p.ClusterSteps}
}

// Slots returns how many slots the endpoints take, for local traffic or for traffic of
// the whole cluster. With [SchedulerMaglev] it is the number of endpoints.
func (p *Pool) Slots(local bool) int {
	list := p.List(local)
	if list.Shares == nil {
		return len(list.Endpoints)
	}
	return sum(list.Shares)
}

// equal reports whether both pools are programmed alike.
func (p *Pool) equal(o *Pool) bool {
	return p.equalForSharers(o) &&
		equalLists(p.Cluster, o.Cluster) && equalLists(p.Local, o.Local) &&
		equalLists(p.ClusterWeights, o.ClusterWeights) && equalLists(p.LocalWeights, o.LocalWeights) &&
		equalLists(p.ClusterShares, o.ClusterShares) && equalLists(p.LocalShares, o.LocalShares) &&
		p.ClusterSteps.equal(&o.ClusterSteps) && p.LocalSteps.equal(&o.LocalSteps) && p.SlowStart == o.SlowStart &&
		equalLists(p.Hairpin, o.Hairpin) && p.PassiveChecks == o.PassiveChecks && equalLists(p.Avoided, o.Avoided) &&
		equalLists(p.StandBy, o.StandBy)
}

// equalForSharers reports whether both pools are alike for a frontend that uses the pool but
// does not own it: whether it is of the same Service and maps to the same chain, whose name has
// the affinity timeout.
func (p *Pool) equalForSharers(o *Pool) bool {
	return p.Key == o.Key && p.UID == o.UID && p.Scheduler == o.Scheduler && p.Affinity == o.Affinity &&
		p.Hold == o.Hold && p.ScaleToZero == o.ScaleToZero && p.RetryRefused == o.RetryRefused &&
		p.Slots(false) == o.Slots(false) && p.Slots(true) == o.Slots(true) &&
		equalLists(p.FlowEndpoints, o.FlowEndpoints)
}

// equalLists reports whether both lists have the same elements. Often they are the
// same slice, which is cheap to see because lists are never changed.
func equalLists[T comparable](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}
