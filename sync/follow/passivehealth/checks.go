package passivehealth

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// maxChecks is how many endpoints are remembered, maxOfNamespace how many of one namespace.
	maxChecks, maxOfNamespace = 20_000, 2_000
	// maxPools is in how many Service ports an endpoint is checked, maxPoolsOfNamespace how many of one
	// namespace: Services elsewhere may name the endpoint, too.
	maxPools, maxPoolsOfNamespace = 64, 8
	// Endpoints of an unused Service port are forgotten after unusedTime, others joined each joinPeriod.
	unusedTime, joinPeriod = time.Hour, time.Minute
	// moreControls is how many other endpoints are probed, too, if the first control has not replied.
	moreControls = 2
)

// checks hold all checks. Like theirs, its methods are pure.
type checks struct {
	all      map[endpoint]*check
	active   map[endpoint]*check // those that are probing or unresponsive
	controls []*check            // to probe for others
	of       map[string]int      // how many a namespace has
}

func newChecks() checks {
	return checks{all: map[endpoint]*check{}, active: map[endpoint]*check{}, of: map[string]int{}}
}

// join remembers the endpoints of a pool that clients use, to probe new ones before they fail.
func (s *checks) join(now time.Time, p *pool) {
	if now.Sub(p.used) >= unusedTime || now.Sub(p.joined) < joinPeriod {
		return
	}
	p.joined = now
	for i, size, first := 0, p.size(), rand.IntN(1<<30); i < size; i++ {
		if s.use(p.at((first+i)%size), p) == nil {
			return
		}
	}
}

// use returns the check of an endpoint that clients may use through a pool, nil if there are too many.
func (s *checks) use(e endpoint, p *pool) *check {
	c := s.all[e]
	if c == nil {
		if n := p.service.Namespace; s.of[n] >= maxOfNamespace || len(s.all) >= maxChecks && !s.evictFor(n) {
			return nil
		}
		c = &check{endpoint: e, namespace: p.service.Namespace}
		s.all[e] = c
		s.of[c.namespace]++
	}
	c.join(p)
	return c
}

// evictFor evicts an idle endpoint of the namespace that has most, if another one still has fewer then.
func (s *checks) evictFor(of string) bool {
	most := ""
	for n, count := range s.of {
		if count > s.of[most] {
			most = n
		}
	}
	if s.of[most] <= s.of[of]+1 {
		return false
	}
	for _, c := range s.all {
		if c.namespace == most && c.phase == phaseIdle && !c.isControl {
			s.remove(c)
			return true
		}
	}
	return false
}

func (s *checks) remove(c *check) {
	delete(s.all, c.endpoint)
	delete(s.active, c.endpoint)
	if s.of[c.namespace]--; s.of[c.namespace] == 0 {
		delete(s.of, c.namespace)
	}
}

// join adds a pool to the endpoint's pools.
func (c *check) join(p *pool) {
	if slices.Contains(c.pools, p) || len(c.pools) >= maxPools {
		return
	}
	same := 0
	for _, other := range c.pools {
		if other.service.Namespace == p.service.Namespace {
			same++
		}
	}
	if same < maxPoolsOfNamespace {
		c.pools = append(c.pools, p)
	}
}

// update moves a check that may have begun or ended to the active ones, or from them.
func (s *checks) update(c *check) {
	if c.phase == phaseIdle {
		delete(s.active, c.endpoint)
	} else {
		s.active[c.endpoint] = c
	}
}

// observe handles a reading.
func (s *checks) observe(r *reading) {
	for e, w := range r.waiting {
		witnesses := r.witnessesOf(w)
		c := s.all[e]
		if c == nil && len(witnesses) > 0 {
			c = s.use(e, w.clients[witnesses[0].clientOf].pool)
		}
		if c != nil {
			for _, known := range witnesses {
				c.join(w.clients[known.clientOf].pool)
			}
			c.observe(r.at, len(w.clients), len(w.ids), len(witnesses))
			s.update(c)
		}
	}
	for e, c := range s.all {
		if e.kind() == r.kind && r.waiting[e] == nil {
			c.observe(r.at, 0, 0, 0)
		}
	}
}

// needReading reports whether a check needs to know which connections of a kind have a reply.
func (s *checks) needReading(k kind, now time.Time) bool {
	for e, c := range s.active {
		if e.kind() == k && (c.answered == nil && c.lacksReply(now) || c.decisionIsDue(now)) {
			return true
		}
	}
	return false
}

// decide makes the due decisions after a reading of connections with a reply, and returns the
// checks of endpoints that are unresponsive or possibly so, or no longer.
func (s *checks) decide(r *reading) (changed []*check) {
	near := sets.Set[netip.Prefix]{} // subnets with endpoints that are unresponsive to witnesses
	for _, c := range s.active {
		if c.phase == phaseUnresponsive && len(c.waiting) > 0 {
			near.Insert(c.subnet())
		}
	}
	// Endpoints with witnesses first, because their result holds for others in the
	// subnet.
	byWitnesses := func(a, b *check) int { return cmp.Compare(len(b.waiting), len(a.waiting)) }
	for _, c := range slices.SortedFunc(maps.Values(s.active), byWitnesses) {
		answered, w := r.answered[c.endpoint], r.waiting[c.endpoint]
		if w == nil {
			w = &waiting{}
		}
		switch {
		case answered == nil:
		case c.phase == phaseUnresponsive:
			if c.releaseIfReplied(r.at, answered) {
				changed = append(changed, c)
				s.update(c)
			}
		case !c.lacksReply(r.at):
		case c.answered == nil:
			c.answered, c.waiting = answered, r.witnessesOf(w)
		case c.decisionIsDue(r.at) && r.full:
			c.begin(r.at)
		case c.decisionIsDue(r.at):
			before := c.possible
			unresponsive := c.decide(r.at, answered, w.ids, near.Has(c.subnet()))
			if unresponsive && len(c.waiting) > 0 {
				near.Insert(c.subnet())
			}
			if unresponsive || before.IsZero() && !c.possible.IsZero() {
				changed = append(changed, c)
			}
			s.update(c)
		}
	}
	slices.SortFunc(changed, func(a, b *check) int { return a.addr.Compare(b.addr) })
	return changed
}

// spread begins to check endpoints whose probes work in the subnets of those that have not replied
// to a first probe. They are often on the same node: IPv4 networks give each a /24, IPv6 ones a /64.
func (s *checks) spread(now time.Time) {
	subnets := sets.Set[netip.Prefix]{}
	for _, c := range s.active {
		if c.lacksReply(now) && !c.spread && c.probesWork() {
			c.spread = true
			subnets.Insert(c.subnet())
		}
	}
	if len(subnets) == 0 {
		return
	}
	for _, c := range s.all {
		if c.mayBegin(now) && c.probesWork() && now.Sub(c.replied) >= replyTime && subnets.Has(c.subnet()) {
			c.begin(now)
			c.spread = true
			s.update(c)
		}
	}
}

func (e endpoint) subnet() netip.Prefix {
	bits := 64
	if e.addr.Addr().Is4() {
		bits = 24
	}
	p, _ := e.addr.Addr().Prefix(bits) // an error needs a wrong number of bits
	return p
}

// due returns the checks whose endpoints are to be probed now, without routine probes, those that were
// due first before others.
func (s *checks) due(now time.Time) (out []*check) {
	for _, c := range s.active {
		if c.isDue(now) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *check) int {
		return cmp.Or(a.next.Compare(b.next), -cmp.Compare(a.clients, b.clients), a.addr.Compare(b.addr))
	})
	return out
}

// routines returns the endpoints with a due routine probe, and how many endpoints probes reach.
// It forgets unused endpoints.
func (s *checks) routines(now time.Time) (out []*check, reached int) {
	for _, c := range s.all {
		if c.probesWork() {
			reached++
		}
		switch {
		case c.phase != phaseIdle:
		case !slices.ContainsFunc(c.pools, func(p *pool) bool { return now.Sub(p.used) <= unusedTime }):
			s.remove(c)
		case c.isDue(now):
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *check) int { return a.routine.Compare(b.routine) })
	return out, reached
}

// takeControls returns the checks of the endpoints to probe for others.
func (s *checks) takeControls() []*check {
	list := s.controls
	s.controls = nil
	return slices.DeleteFunc(list, func(c *check) bool {
		c.isControl = false
		return c.phase != phaseIdle || s.all[c.endpoint] != c
	})
}

// addControls adds the controls for a probe of an endpoint: in each pool those that replied last, and
// others by chance if that may not suffice.
func (s *checks) addControls(c *check, now time.Time) {
	since := now.Add(-secondProbe)
	if c.phase == phaseProbing {
		since = c.began
	}
	for _, p := range c.pools {
		replied, onNode := false, p.isLocal(c.endpoint)
		for _, r := range p.controls(c.endpoint) {
			if r.at.Before(since) {
				s.addControl(r.endpoint, p)
			}
			replied = replied || (onNode || !p.isLocal(r.endpoint)) && (c.sent < 2 || !r.at.Before(since))
		}
		if !replied || c.misses > 0 {
			s.addControlsByChance(c, p)
		}
	}
}

// addControlsByChance adds moreControls endpoints at other addresses, starting from a random
// one.
func (s *checks) addControlsByChance(c *check, p *pool) {
	size, added := p.size(), 0
	for i, first := 0, rand.IntN(max(size, 1)); i < size && added < moreControls; i++ {
		if e := p.at((first + i) % size); e.addr.Addr() != c.addr.Addr() {
			s.addControl(e, p)
			added++
		}
	}
}

func (s *checks) addControl(e endpoint, p *pool) {
	if c := s.use(e, p); c != nil && c.phase == phaseIdle && !c.isControl {
		c.isControl = true
		s.controls = append(s.controls, c)
	}
}

// replace puts pools that changed in place of the replaced ones, and forgets endpoints that are no
// longer in a pool.
func (s *checks) replace(replaced []*pool, p *pools) {
	for _, old := range replaced {
		next := p.all[old.key]
		s.each(old, func(c *check) {
			for _, list := range []*[]*pool{&c.pools, &c.in, &c.possibleIn} {
				replacePool(list, old, next, next != nil && next.has(c.endpoint))
			}
			if len(c.pools) == 0 {
				s.remove(c)
			}
		})
	}
}

// each calls fn for the checks of a pool's endpoints; for some of them twice.
func (s *checks) each(p *pool, fn func(*check)) {
	if p.size() > len(s.all) {
		for e, c := range s.all {
			if p.has(e) {
				fn(c)
			}
		}
		return
	}
	for i := range p.size() {
		if c := s.all[p.at(i)]; c != nil {
			fn(c)
		}
	}
}

func replacePool(list *[]*pool, old, next *pool, keep bool) {
	switch i := slices.Index(*list, old); {
	case i < 0:
	case keep:
		(*list)[i] = next
	default:
		*list = slices.Delete(*list, i, i+1)
	}
}

// joinUnresponsive adds a new pool to the unresponsive endpoints that it has.
func (s *checks) joinUnresponsive(p *pool) {
	for e, c := range s.active {
		if c.phase == phaseUnresponsive && p.has(e) {
			c.join(p)
		}
	}
}
