package passivehealth

import (
	"net/netip"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

const (
	// replyTime is how long an endpoint has to reply to one of two probes, and how long a
	// connection must have had no reply.
	replyTime = time.Second
	// probesOfCheck is how many probes of a check must have no reply, and secondProbe when the second
	// one is sent.
	probesOfCheck = 2
	secondProbe   = replyTime / 2

	// backoff is after how long an endpoint is checked again that replied, or whose state cannot
	// be known.
	backoff = time.Second
	// An unresponsive endpoint is probed every probePeriod, after longTime every longProbePeriod.
	probePeriod, longProbePeriod, longTime = time.Second, 5 * time.Second, time.Minute
	// routinePeriod is after how long an endpoint in use is probed again.
	routinePeriod = 10 * time.Minute
	// maxMisses is in how many rounds in a row no control may reply before an unresponsive endpoint is
	// released.
	maxMisses = 3
	// weakTime is how long an endpoint may be unresponsive without a witness of its own, or on another
	// node if only endpoints on this node reply: policies never drop their probes.
	weakTime = time.Minute
	// possibleTime is for how long an endpoint is possibly unresponsive after the last connection
	// of a witness without a reply.
	possibleTime = time.Minute
	// An endpoint that replied again stays in use for minCoolDown, which doubles up to maxCoolDown if
	// it was unresponsive in the last coolDownMemory, too.
	minCoolDown, maxCoolDown, coolDownMemory = 5 * time.Second, time.Minute, 10 * time.Minute
)

// A phase is a state of a check.
type phase uint8

const (
	phaseIdle         phase = iota // only the past of the endpoint is remembered
	phaseProbing                   // it is not known yet whether the endpoint replies
	phaseUnresponsive              // the endpoint replies neither to connections nor to probes
)

// A clientOf is a client of a Service port.
type clientOf struct {
	pool   model.Match
	client netip.Addr
}

// A connection is one without a reply.
type connection struct {
	clientOf
	id uint32 // of the entry in connection tracking
}

// A check is the state of an endpoint that this node's clients use. Its methods are pure: they
// take the time as an argument, and do no I/O.
type check struct {
	endpoint
	pools     []*pool // through which clients use the endpoint; at least one
	namespace string  // that pays for the check
	phase     phase
	began     time.Time // when the phase began

	replied    time.Time // when a probe last had a reply; zero if probes are not known to reach it
	stale      bool      // until one has a reply again, a missing one does not count
	superseded int       // checks in a row that ended because a connection had a reply
	routine    time.Time // when the next routine probe is due; zero for the first one, before all others
	isControl  bool      // it is to be probed for the check of another endpoint
	notBefore  time.Time // when it may be checked again
	spread     bool      // the endpoints in its subnet are checked, too
	next       time.Time // when the next probe of a check is due

	sent, unanswered int // probes of this phase, and those without a reply
	// answered are the connections that had a reply in the last reading since the first probe had
	// none, nil before; waiting are the connections of witnesses without a reply in all of these
	// until the decision.
	answered map[uint32]struct{}
	waiting  []connection

	clients, connections int     // without a reply in the last reading, whoever they are
	in                   []*pool // unresponsive: those with a control
	misses               int     // unresponsive: rounds in a row without one
	onlyLocal            bool    // unresponsive: all controls are on this node, but not the endpoint

	possible   time.Time // since when it is possibly unresponsive, if it is
	possibleIn []*pool
	waited     time.Time // when witnesses last had connections without a reply

	released time.Time // when it last replied after it was unresponsive
	coolDown time.Duration
}

// enter begins a phase.
func (c *check) enter(p phase, now time.Time) {
	c.phase, c.began, c.next = p, now, now
	c.sent, c.unanswered, c.misses, c.spread = 0, 0, 0, false
}

// begin begins to probe the endpoint.
func (c *check) begin(now time.Time) {
	c.enter(phaseProbing, now)
	c.waiting, c.answered = nil, nil
}

// end ends a check without a result.
func (c *check) end(now time.Time) {
	c.enter(phaseIdle, now)
	c.notBefore, c.in, c.answered = now.Add(backoff), nil, nil
}

// mayBegin reports whether the endpoint may be checked now.
func (c *check) mayBegin(now time.Time) bool { return c.phase == phaseIdle && !now.Before(c.notBefore) }

// probesWork reports whether a missing reply counts.
func (c *check) probesWork() bool { return !c.replied.IsZero() && !c.stale }

// observe handles a reading: how many clients have connections without a reply, and how many of
// these are witnesses. A connection of any client is a reason to probe, which harms nothing. If
// probes are not known to reach the endpoint, one of a witness is.
func (c *check) observe(now time.Time, clients, connections, witnesses int) {
	c.clients, c.connections = clients, connections
	if witnesses > 0 {
		c.waited = now
	}
	if c.mayBegin(now) && (witnesses > 0 || clients > 0 && c.probesWork()) {
		c.begin(now)
	}
	if !c.possible.IsZero() && now.Sub(c.waited) > possibleTime {
		c.possible = time.Time{}
	}
}

// isDue reports whether to probe the endpoint now. A check that waits for a reading goes on
// probing, to decide on current knowledge. An endpoint without others, which cannot be found
// unresponsive, gets no routine probes: raw sockets see the reset with which they end.
func (c *check) isDue(now time.Time) bool {
	switch c.phase {
	case phaseIdle:
		return !now.Before(c.routine) && slices.ContainsFunc(c.pools, func(p *pool) bool { return p.hasOther(c.endpoint) })
	case phaseProbing, phaseUnresponsive:
	}
	return !now.Before(c.next)
}

// probing records that a probe is sent, and returns how long to wait for the reply: the two of a
// check have replyTime together.
func (c *check) probing(now time.Time) (wait time.Duration) {
	c.sent++
	switch {
	case c.phase == phaseIdle:
		c.routine = now.Add(routinePeriod)
	case c.phase == phaseProbing && c.sent == 1:
		c.next = now.Add(secondProbe)
	case c.phase == phaseProbing && c.sent == 2:
		c.next = now.Add(probePeriod)
		return replyTime - secondProbe
	case now.Sub(c.began) < longTime:
		c.next = now.Add(probePeriod)
	default:
		c.next = now.Add(longProbePeriod)
	}
	return replyTime
}

// reply handles a reply to a probe. It reports whether the endpoint was unresponsive.
func (c *check) reply(now time.Time) (released bool) {
	c.replied, c.stale, c.superseded, c.possible = now, false, 0, time.Time{}
	for _, p := range c.pools {
		p.addReply(c.endpoint, now)
	}
	switch c.phase {
	case phaseProbing:
		c.end(now)
	case phaseUnresponsive:
		c.release(now)
		return true
	case phaseIdle:
	}
	return false
}

// release makes an endpoint that replies one that is in use, for some time at least.
func (c *check) release(now time.Time) {
	if c.coolDown = min(2*c.coolDown, maxCoolDown); c.coolDown == 0 || now.Sub(c.released) > coolDownMemory {
		c.coolDown = minCoolDown
	}
	c.end(now)
	c.released, c.notBefore = now, now.Add(c.coolDown)
}

// noReply handles a probe without a reply. It reports whether the endpoint was unresponsive and is
// released: without a control, nothing is known of it.
func (c *check) noReply(now, sent time.Time) (released bool) {
	c.unanswered++
	if c.phase == phaseIdle {
		for _, p := range c.pools {
			p.unanswered = now
		}
	}
	switch {
	case c.phase == phaseIdle && c.probesWork() && c.mayBegin(now):
		c.begin(now)
	case c.phase == phaseUnresponsive:
		return c.confirm(now, sent)
	}
	return false
}

// confirm releases an unresponsive endpoint if no control has replied in maxMisses rounds, or after
// weakTime. It reports whether it did.
func (c *check) confirm(now, sent time.Time) (released bool) {
	in, local := c.controlled(sent.Add(-secondProbe)) // as addControls counts
	switch {
	case len(in) > 0:
		c.in, c.misses, c.onlyLocal = in, 0, local
	case len(c.in) == 0 || slices.ContainsFunc(c.in, func(p *pool) bool { return !p.unanswered.Before(sent) }):
		c.misses++
	}
	old := now.Sub(c.began) >= weakTime
	if c.stale = old && c.onlyLocal; !c.stale && c.misses < maxMisses && (!old || len(c.waiting) > 0) {
		return false
	}
	c.possible, c.possibleIn, c.waited = now, c.in, now
	c.end(now)
	return true
}

// unknown handles a probe that says nothing about the endpoint, such as one that a policy
// prohibits. It reports whether the endpoint was unresponsive.
func (c *check) unknown(now time.Time) (released bool) {
	if released = c.phase == phaseUnresponsive; released {
		c.possible, c.possibleIn, c.waited = now, c.in, now
	}
	if c.phase != phaseIdle {
		c.end(now)
	}
	return released
}

// controlled returns the pools in which another endpoint replied to a probe since then, and whether
// all of these endpoints are on this node, but not the checked one.
func (c *check) controlled(since time.Time) (in []*pool, local bool) {
	local = true
	for _, p := range c.pools {
		for _, r := range p.controls(c.endpoint) {
			if r.at.Before(since) {
				continue
			}
			local = local && p.isLocal(r.endpoint) && !p.isLocal(c.endpoint)
			if !slices.Contains(in, p) {
				in = append(in, p)
			}
		}
	}
	return in, local
}

// lacksReply reports whether the first probe of a check has no reply yet, and the state of the
// endpoint's clients must be read.
func (c *check) lacksReply(now time.Time) bool {
	return c.phase == phaseProbing && c.sent > 0 && now.Sub(c.began) >= secondProbe
}

// decisionIsDue reports whether both probes had no reply and a reading must decide.
func (c *check) decisionIsDue(now time.Time) bool {
	return c.phase == phaseProbing && c.unanswered >= probesOfCheck && c.answered != nil && now.Sub(c.began) >= replyTime
}

// hasNew reports whether one of the connections with a reply had none in the last reading.
func (c *check) hasNew(answered map[uint32]struct{}) bool {
	for id := range answered {
		if _, before := c.answered[id]; !before {
			return true
		}
	}
	return false
}

// releaseIfReplied releases an unresponsive endpoint if a connection has had a reply since. Until a
// probe has one, probes do not count.
func (c *check) releaseIfReplied(now time.Time, answered map[uint32]struct{}) (released bool) {
	if released = c.hasNew(answered); released {
		c.release(now)
		c.stale, c.routine, c.possible = true, now, time.Time{}
	} else {
		c.answered = answered
	}
	return released
}

// decide decides after a reading. answered are the connections with a reply now, and ids the
// connections without one; near means that an endpoint in the same subnet is unresponsive to
// witnesses. It reports whether the endpoint is unresponsive.
func (c *check) decide(now time.Time, answered map[uint32]struct{}, ids []uint32, near bool) bool {
	if c.hasNew(answered) {
		c.possible = time.Time{}
		if c.superseded++; c.superseded > 1 {
			c.replied = time.Time{} // connections reach it, probes do not
		}
		c.end(now)
		return false
	}
	c.waiting = slices.DeleteFunc(c.waiting, func(w connection) bool { return !slices.Contains(ids, w.id) })
	var in []*pool
	if c.probesWork() && (near || len(c.waiting) > 0) {
		in, c.onlyLocal = c.controlled(c.began)
	}
	if len(in) == 0 {
		c.setPossible(now)
		return false
	}
	c.enter(phaseUnresponsive, now)
	c.answered = answered
	c.sent, c.unanswered = probesOfCheck, probesOfCheck // enter forgot what reports show
	c.next, c.in, c.possible = now.Add(probePeriod), in, time.Time{}
	return true
}

// setPossible makes the endpoint possibly unresponsive where witnesses get no reply: two of them, or
// one if probes worked before.
func (c *check) setPossible(now time.Time) {
	needed := 2
	if !c.replied.IsZero() {
		needed = 1
	}
	count := map[model.Match]int{}
	for _, w := range c.waiting {
		count[w.pool]++ // each is of another client
	}
	in := slices.DeleteFunc(slices.Clone(c.pools), func(p *pool) bool { return count[p.key] < needed })
	if len(in) > 0 {
		c.possibleIn = in
		if c.possible.IsZero() {
			c.possible = now
		}
	}
	c.end(now)
}

// services returns the Services of pools.
func services(list []*pool) (out []sync.Object) {
	for _, p := range list {
		if !slices.Contains(out, p.service) {
			out = append(out, p.service)
		}
	}
	return out
}
