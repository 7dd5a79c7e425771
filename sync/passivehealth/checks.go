package passivehealth

import (
	"cmp"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

const (
	// answerTime is how long an endpoint has to answer one of two questions, and how long a
	// connection must have waited for an answer.
	answerTime = time.Second
	// secondQuestion is when an endpoint is asked again.
	secondQuestion = answerTime / 2
	// maxSample is how many unanswered connections of an endpoint are remembered.
	maxSample = 16

	// answeringPause is after how long an endpoint is asked again that answers although
	// connections wait.
	answeringPause = time.Second
	// An unresponsive endpoint is asked every askPeriod, after longTime every longAskPeriod.
	askPeriod, longAskPeriod, longTime = time.Second, 5 * time.Second, time.Minute
	// An endpoint that has never answered a question is used again after minRetry, which
	// doubles up to maxRetry; after a sixth of that if its connections were answered while
	// questions were not.
	minRetry, maxRetry, blindFactor = time.Minute, 16 * time.Minute, 6
	// An endpoint that is used again stays so for minCalm, which doubles up to maxCalm if it
	// was used again in the last calmTime, too.
	minCalm, maxCalm, calmTime = 5 * time.Second, 5 * time.Minute, 10 * time.Minute
)

// A phase is a state of a check.
type phase uint8

const (
	phaseAsking       phase = iota // connections wait, and the endpoint is asked
	phaseAnswering                 // connections wait, but the endpoint answers
	phaseUnresponsive              // the endpoint answers neither connections nor questions
	phaseCalm                      // nothing waits; only the past of the endpoint is remembered
)

// A check is what is known of an endpoint that had connections without an answer.
type check struct {
	endpoint
	pools []*pool // that have the endpoint; at least one
	phase phase
	// began is when the phase began, and next when something is due in it.
	began, next time.Time

	waiting     []uint32 // a sample of the connections that were unanswered when asking began
	connections int      // without an answer, when connection tracking was last read
	stillWaits  bool     // one of waiting was there a second later
	questions   int      // sent in this phase
	silent      int      // of them, those without an answer
	askable     bool     // it has answered a question once
	blind       bool     // connections were answered while questions were not
	twoWay      bool     // it has answered connections, or its protocol has a handshake

	// answered are the connections that had an answer before the second question; nil if
	// that was not read.
	answered map[uint32]struct{}

	located bool   // node is what the loop knows
	node    string // where the endpoint runs; empty if unknown

	released time.Time     // when it was used again; zero if never
	calm     time.Duration // after that it stays in use
	retry    time.Duration // how long it was avoided the last time, if it is not askable
}

// checks hold all checks. Its methods are pure: they are given the time, and do no I/O.
type checks struct{ all map[endpoint]*check }

// observe handles a reading of connection tracking: the numbers of unanswered connections by
// endpoint, and the pools of these endpoints. began is when the reading began.
func (s *checks) observe(began time.Time, unanswered map[endpoint][]uint32, pools map[endpoint][]*pool) {
	for e, owners := range pools {
		c := s.all[e]
		if c == nil {
			c = &check{endpoint: e, phase: phaseCalm}
			s.all[e] = c
		}
		c.pools = owners
		c.observe(began, unanswered[e])
	}
	for e, c := range s.all {
		if _, waits := pools[e]; !waits && c.phase != phaseUnresponsive {
			c.calmDown(began)
			if began.Sub(c.released) > calmTime && !c.askable {
				delete(s.all, e)
			}
		}
	}
}

// observe handles the unanswered connections of one endpoint.
func (c *check) observe(now time.Time, ids []uint32) {
	c.connections = len(ids)
	switch {
	case c.phase == phaseAsking:
		if now.Sub(c.began) < answerTime {
			return
		}
		c.stillWaits = slices.ContainsFunc(c.waiting, func(id uint32) bool { return slices.Contains(ids, id) })
		if !c.stillWaits {
			c.answers(now)
		}
	case c.phase == phaseUnresponsive:
	case now.Before(c.next), now.Before(c.released.Add(c.calm)):
	default:
		c.ask(now, ids)
	}
}

// ask begins to ask the endpoint.
func (c *check) ask(now time.Time, ids []uint32) {
	c.begin(phaseAsking, now)
	c.waiting = slices.Clone(ids[:min(len(ids), maxSample)])
	c.stillWaits, c.answered, c.next, c.located = false, nil, now, false
}

func (c *check) begin(p phase, now time.Time) {
	c.phase, c.began, c.questions, c.silent = p, now, 0, 0
}

// calmDown ends a phase because no connection waits any more.
func (c *check) calmDown(now time.Time) {
	if c.phase != phaseCalm {
		c.begin(phaseCalm, now)
		c.next, c.connections = time.Time{}, 0
	}
}

// due returns the questions that are due, those that were due first before others.
func (s *checks) due(now time.Time) (out []*check) {
	for _, c := range s.all {
		if c.isDue(now) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *check) int {
		return cmp.Or(a.next.Compare(b.next), cmp.Compare(b.connections, a.connections), a.addr.Compare(b.addr))
	})
	return out
}

// isDue reports whether the endpoint should be asked now.
func (c *check) isDue(now time.Time) bool {
	switch c.phase {
	case phaseAsking:
		return c.questions < 2 && !now.Before(c.next)
	case phaseUnresponsive:
		return !now.Before(c.next)
	}
	return false
}

// sent records that a question was sent, and returns how long to wait for its answer. Silence is
// certain answerTime after the first question, within which both are asked.
func (c *check) sent(now time.Time) (wait time.Duration) {
	c.questions++
	if c.phase == phaseUnresponsive {
		c.next = now.Add(askPeriodAfter(now.Sub(c.began)))
		return answerTime
	}
	c.next = now.Add(secondQuestion)
	if c.questions == 2 {
		return answerTime - secondQuestion
	}
	return answerTime
}

// askPeriodAfter returns how long after a question the next one follows to what has not answered
// for a time.
func askPeriodAfter(silent time.Duration) time.Duration {
	if silent >= longTime {
		return longAskPeriod
	}
	return askPeriod
}

// An outcome is what came of a question.
type outcome uint8

const (
	outcomeSilence outcome = iota
	outcomeAnswer
	outcomeUnknown // the question could not be asked
)

// answer handles the outcome of a question, and returns the check if its endpoint is used again.
// Silence says nothing about a phase that began after the question.
func (s *checks) answer(now time.Time, a questionAnswer) (released *check) {
	c := s.all[a.endpoint]
	switch {
	case c == nil || c.phase != phaseAsking && c.phase != phaseUnresponsive:
	case a.outcome == outcomeSilence:
		if a.began.Equal(c.began) {
			c.silent++
		}
	case a.outcome == outcomeAnswer:
		c.askable, c.retry = true, 0
		if c.phase == phaseUnresponsive {
			c.release(now)
			return c
		}
		c.answers(now)
	case c.phase == phaseAsking:
		c.answers(now) // nothing is certain
	}
	return nil
}

// answers begins a pause in which the endpoint is not asked.
func (c *check) answers(now time.Time) {
	c.begin(phaseAnswering, now)
	c.next = now.Add(answeringPause)
}

// release makes the endpoint one that is used again.
func (c *check) release(now time.Time) {
	c.calm = min(2*c.calm, maxCalm)
	if c.calm == 0 || now.Sub(c.released) > calmTime {
		c.calm = minCalm
	}
	c.begin(phaseCalm, now)
	c.released, c.next = now, time.Time{}
}

// silentChecks returns the checks whose first question was not answered until the second was
// due. The connections that they have answered so far are to be read, and their nodes asked.
func (s *checks) silentChecks(now time.Time) (out []*check) {
	for _, c := range s.all {
		if c.phase == phaseAsking && c.questions > 0 && now.Sub(c.began) >= secondQuestion {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *check) int { return a.addr.Compare(b.addr) })
	return out
}

// decisions returns the checks for which a decision is due: no question was answered, and a
// connection still waits. What they have answered meanwhile is to be read before [check.decide].
func (s *checks) decisions(now time.Time) (out []*check) {
	for _, c := range s.all {
		late := c.phase == phaseAsking && now.Sub(c.began) >= answerTime
		if late && c.questions >= 2 && c.silent >= 2 && c.stillWaits && c.answered != nil {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *check) int { return a.addr.Compare(b.addr) })
	return out
}

// decide makes the endpoint unresponsive, unless its connections are answered, or cutOff: this node
// itself has no network, so that nothing is certain. answered are the connections that have an
// answer by now. It reports whether it did.
func (c *check) decide(now time.Time, answered map[uint32]struct{}, cutOff bool) bool {
	for id := range answered {
		if _, before := c.answered[id]; !before {
			c.blind = true
			c.answers(now)
			return false
		}
	}
	c.twoWay = c.twoWay || c.protocol != model.UDP || len(answered)+len(c.answered) > 0
	if !c.twoWay || cutOff {
		c.answers(now)
		return false
	}
	c.unresponsive(now)
	return true
}

// unresponsive makes the endpoint one that does not answer.
func (c *check) unresponsive(now time.Time) {
	questions := c.questions
	c.begin(phaseUnresponsive, now)
	c.questions, c.silent, c.next = questions, questions, now.Add(askPeriod)
	if !c.askable {
		c.retry = min(max(2*c.retry, minRetry), maxRetry)
	}
}

// retries releases the endpoints that have never answered a question and have been avoided for
// long enough, and returns them. Connections decide again.
func (s *checks) retries(now time.Time) (out []*check) {
	for _, c := range s.all {
		retry := c.retry
		if c.blind {
			retry /= blindFactor
		}
		if c.phase == phaseUnresponsive && !c.askable && now.Sub(c.began) >= retry {
			c.release(now)
			out = append(out, c)
		}
	}
	return out
}

// needReading reports whether a check needs the connections without an answer: to learn whether
// they still wait, or, if the counter has moved, whether an endpoint that never answered has some
// again after its retry.
func (s *checks) needReading(now time.Time, moved bool) bool {
	for _, c := range s.all {
		since := now.Sub(c.released) - c.calm
		again := moved && c.phase == phaseCalm && !c.askable && since >= 0 && since < minCalm
		if again || c.phase == phaseAsking && !c.stillWaits {
			return true
		}
	}
	return false
}

// forget replaces pools that are gone or changed, and drops the checks of endpoints that are in no
// pool any more.
func (s *checks) forget(replaced []*pool, p pools) {
	for _, old := range replaced {
		next := p[old.key]
		old.each(func(e endpoint) {
			c := s.all[e]
			if c == nil {
				return
			}
			if i := slices.Index(c.pools, old); i >= 0 && next != nil && next.has(e) {
				c.pools[i] = next
			} else if i >= 0 {
				c.pools = slices.Delete(c.pools, i, i+1)
			}
			if len(c.pools) == 0 {
				delete(s.all, e)
			}
		})
	}
}

// join adds a new pool to the checks of its endpoints.
func (s *checks) join(p *pool) {
	p.each(func(e endpoint) {
		if c := s.all[e]; c != nil && !slices.Contains(c.pools, p) {
			c.pools = append(c.pools, p)
		}
	})
}

// services returns the Services of the endpoint.
func (c *check) services() (out []sync.Object) {
	for _, p := range c.pools {
		if !slices.Contains(out, p.service) {
			out = append(out, p.service)
		}
	}
	return out
}
