package passivehealth

import (
	"cmp"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

const (
	// Readings of each kind take readsPerSecond of processor time, with bursts, while connections may
	// count. If none does, those with a reply take one part of idleFactor, and those without one
	// over UDP, whose clients need not retransmit.
	readsPerSecond, readBurst = 4_000, 1_000_000 // microseconds
	idleFactor                = 4000
	// datagramTime is after how long UDP is read in any case that its budget allows. One datagram is
	// tracked for 30 s, and the kernel walks its whole hash table, often for more than 10 ms.
	datagramTime = 25 * time.Second
	// A reading has at most maxClients clients of a namespace without a reply, and maxOfEndpoint of one
	// endpoint.
	maxClients, maxOfEndpoint = 4096, 256
	// Connections with a reply are read for clients that may be witnesses after lookupTime, at most for
	// one part of lookupFactor.
	lookupTime, lookupFactor = 10 * time.Second, 1000
	countFactor              = 2000 // the counters of connections take one part of it
	// lateTime is after how long a reading that is due is late.
	lateTime = time.Minute
)

// A kind of connections is read together: many connections of one do not delay the readings of
// others.
type kind struct {
	family   model.Family
	protocol model.Protocol
}

func (e endpoint) kind() kind { return kind{model.FamilyOf(e.addr.Addr()), e.protocol} }

// A lane has the readings of one kind.
type lane struct {
	kind
	// moved means that there may be more connections of witnesses without a reply.
	moved          bool
	last, surveyed time.Time // when connections without a reply, and with one, were last read
	// cost and answeredCost are the processor time of these readings.
	cost, answeredCost time.Duration
	budget             *rate.Limiter // in microseconds of processor time
}

// A reading is the connection tracking entries of one kind.
type reading struct {
	kind
	at      time.Time
	full    bool                  // probes may be dropped here
	waiting map[endpoint]*waiting // connections without a reply
	clients map[string]int        // of all of them, by namespace
	// witnesses are clients of these that matter, and whether they have connections with a reply.
	witnesses map[clientOf]bool
	// answered are the connections with a reply, of endpoints that are or may be checked; nil if
	// they were not read.
	answered map[endpoint]map[uint32]struct{}
	used     []*pool // of connections with a reply
}

// waiting are the connections of an endpoint without a reply.
type waiting struct {
	ids     []uint32
	clients map[clientOf]clientConnection
}

// A clientConnection is the first one of a client.
type clientConnection struct {
	pool *pool
	id   uint32
}

// readCounter reads whether first packets were sent again, over TCP or SCTP.
func (t *Tracker) readCounter() {
	total, err := t.Counter.Unanswered()
	if err != nil {
		return // connection tracking is read rarely, and the loop cares for the table
	}
	if total != t.counter {
		t.counter = total
		for k, l := range t.lanes {
			l.moved = l.moved || k.protocol != model.UDP
		}
	}
}

// readCounts looks for Service ports that clients use, if the kernel counts connections. Unlike a
// reading of connection tracking, it costs nothing for connections that stay open.
func (t *Tracker) readCounts(now time.Time) {
	if t.counts.Remaining() > 0 {
		return
	}
	sums := map[*pool]uint64{}
	t.counts.Do(func() {
		for _, f := range model.Families {
			list, _ := t.Counter.Connections(f) // the next reading has what an error hides
			for i := range list {
				m := &list[i].Destination
				sums[t.pools.find(m.Protocol, netip.AddrPortFrom(m.Addr, m.Port))] += list[i].Connections
			}
		}
	})
	for p, n := range sums {
		if p != nil && n != p.counted {
			p.counted, p.used = n, now
			t.checks.join(now, p)
		}
	}
}

// readDue reads the lanes that are due, the cheapest first, and returns the checks that a reading
// decided.
func (t *Tracker) readDue(now time.Time) (changed []*check) {
	var list []*lane
	for k, l := range t.lanes {
		if t.pools.kinds[k] > 0 {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.family, b.family))
	})
	late := time.Duration(0)
	for _, l := range list {
		if l.last.IsZero() {
			l.last = now
		}
		if t.readingIsDue(now, l) {
			changed = append(changed, t.readLane(now, l)...)
		}
		if since := now.Sub(l.last); since > lateTime && (l.moved || l.protocol == model.UDP) {
			late = max(late, since)
		}
	}
	t.late.Store(int64(late))
	return changed
}

// readingIsDue reports whether to read a lane. Unless a check needs it, the budget keeps the cost of a
// decision: clients that go on sending to an unresponsive endpoint would use up all of it.
func (t *Tracker) readingIsDue(now time.Time, l *lane) bool {
	since, budget := now.Sub(l.last), l.budget.TokensAt(now)
	switch {
	case since < secondProbe:
		return false
	case t.checks.needReading(l.kind, now):
		return budget >= 1
	case since < replyTime:
		return false
	case (l.moved || l.protocol == model.UDP && since >= datagramTime) &&
		budget >= l.decisionCost()+float64(l.cost.Microseconds()):
		return true
	}
	if l.protocol == model.UDP {
		return since >= idleFactor*l.cost
	}
	return l.surveyIsDue(now) // the counter shows the rest
}

// surveyIsDue reports whether to read the connections with a reply.
func (l *lane) surveyIsDue(now time.Time) bool {
	return now.Sub(l.surveyed) >= max(idleFactor*l.answeredCost, replyTime)
}

// decisionCost returns the cost of finding an endpoint unresponsive: connections without a reply
// and those with one are read twice each, at the cost of the last time.
func (l *lane) decisionCost() float64 {
	return float64(min(2*(l.cost+l.answeredCost).Microseconds(), readBurst-l.cost.Microseconds()))
}

// readLane reads the connections of a kind without a reply, and those with one if they may
// matter, and returns the checks that this decided.
func (t *Tracker) readLane(now time.Time, l *lane) []*check {
	r := &reading{kind: l.kind, at: now, witnesses: map[clientOf]bool{}}
	cost, ok := t.read(now, l.budget, func() (err error) {
		if r.full, err = t.Tracking.IsFull(); err != nil {
			return err
		}
		return t.Tracking.EachUnanswered(l.family, l.protocol, func() {
			r.waiting, r.clients = map[endpoint]*waiting{}, map[string]int{}
		}, func(e conntrack.Entry) { r.addWaiting(&t.pools, &e) })
	})
	if !ok {
		return nil
	}
	l.moved, l.last, l.cost = false, now, cost
	lookup := r.findWitnesses(now, &t.checks) && now.Sub(l.surveyed) >= max(lookupTime, lookupFactor*l.answeredCost)
	needed, budget := t.checks.needReading(l.kind, now), l.budget.TokensAt(now)
	switch {
	case needed && budget >= 1:
		t.readAnswered(l, r, l.budget)
	case l.surveyIsDue(now):
		t.readAnswered(l, r, nil)
	case lookup && budget >= l.decisionCost():
		t.readAnswered(l, r, l.budget)
	}
	t.checks.observe(r)
	return t.checks.decide(r)
}

// addWaiting adds a connection without a reply.
func (r *reading) addWaiting(all *pools, e *conntrack.Entry) {
	k := endpoint{e.Protocol, e.Reply}
	p := all.find(e.Protocol, e.Original)
	if p == nil || !p.has(k) {
		return
	}
	w := r.waiting[k]
	if w == nil {
		w = &waiting{clients: map[clientOf]clientConnection{}}
		r.waiting[k] = w
	}
	w.ids = append(w.ids, e.ID)
	client, ns := clientOf{p.key, e.Client.Addr()}, p.service.Namespace
	if w.clients[client].pool == nil && len(w.clients) < maxOfEndpoint && r.clients[ns] < maxClients {
		w.clients[client] = clientConnection{p, e.ID}
		r.clients[ns]++
	}
}

// witnessesOf returns a connection of each of the witnesses.
func (r *reading) witnessesOf(w *waiting) (out []connection) {
	for client, first := range w.clients {
		if r.witnesses[client] {
			out = append(out, connection{client, first.id})
		}
	}
	return out
}

// findWitnesses adds the clients who may matter as witnesses: clients of endpoints that probes are
// not known to reach, and of unresponsive ones. It reports whether there are some of the former.
func (r *reading) findWitnesses(now time.Time, s *checks) (lookup bool) {
	for e, w := range r.waiting {
		c := s.all[e]
		if c != nil && c.probesWork() && !c.lacksReply(now) {
			continue
		}
		for client := range w.clients {
			r.witnesses[client] = false
		}
		lookup = lookup || c == nil || c.mayBegin(now)
	}
	return lookup
}

// readAnswered reads the connections with a reply: which clients are witnesses, and which endpoints
// are in use. A survey, which has a part of the time of its own, takes nothing from a budget.
func (t *Tracker) readAnswered(l *lane, r *reading, budget *rate.Limiter) {
	cost, ok := t.read(r.at, budget, func() error {
		return t.Tracking.EachAnswered(l.family, l.protocol, func() {
			r.answered = map[endpoint]map[uint32]struct{}{}
			for e := range r.waiting {
				r.answered[e] = map[uint32]struct{}{}
			}
			for e := range t.checks.active {
				if e.kind() == l.kind {
					r.answered[e] = map[uint32]struct{}{}
				}
			}
		}, func(e conntrack.Entry) { r.addAnswered(&t.pools, &e) })
	})
	if !ok {
		r.answered = nil
		return
	}
	l.answeredCost, l.surveyed = cost, r.at
	for _, p := range r.used {
		t.checks.join(r.at, p)
	}
}

// addAnswered adds a connection with a reply.
func (r *reading) addAnswered(all *pools, e *conntrack.Entry) {
	k := endpoint{e.Protocol, e.Reply}
	if ids := r.answered[k]; ids != nil {
		ids[e.ID] = struct{}{}
	}
	p := all.find(e.Protocol, e.Original)
	if p == nil || !p.has(k) || e.Aborted {
		return
	}
	client := clientOf{p.key, e.Client.Addr()}
	if _, waits := r.witnesses[client]; waits {
		r.witnesses[client] = true
	}
	if !p.used.Equal(r.at) {
		p.used, r.used = r.at, append(r.used, p)
	}
}

// read calls the function that reads connection tracking, and takes its processor time from the
// budget, if there is one. It logs when readings start to fail or to succeed again; ok is false if
// this one failed.
func (t *Tracker) read(now time.Time, budget *rate.Limiter, fn func() error) (cost time.Duration, ok bool) {
	runtime.LockOSThread() // for its processor time
	defer runtime.UnlockOSThread()
	before := t.cpuTime()
	err := fn()
	cost = t.cpuTime() - before
	if budget != nil {
		budget.ReserveN(now, min(int(cost.Microseconds()), readBurst))
	}
	t.outcome.Log(t.Log, err, "connection tracking not readable, passive health checks paused",
		"connection tracking readable again")
	return cost, err == nil
}
