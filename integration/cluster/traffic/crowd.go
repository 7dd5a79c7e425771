package traffic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	stdsync "sync"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
)

// pause is the time between two requests of a client over one way.
const pause = 40 * time.Millisecond

// Crowd is a set of clients that send requests all the time, each over all ways in parallel.
type Crowd struct {
	clients int
	stop    context.CancelFunc
	done    stdsync.WaitGroup
	pulse   *pulse

	mu       stdsync.Mutex // of what follows
	asked    []*asked
	count    int
	longest  time.Duration // of answers
	failed   int
	failures []string        // the first of each client and way
	failing  map[string]bool // those
	err      error
}

type asked struct {
	Target
	answered map[string]bool // who had an answer, by client and way
}

// Start starts the clients. There is no target yet.
func Start(clients ...*Client) *Crowd {
	ctx, stop := context.WithCancel(context.Background())
	beats, end := context.WithCancel(context.Background())
	c := &Crowd{clients: len(clients), failing: map[string]bool{}, pulse: &pulse{last: time.Now()}}
	c.stop = func() { stop(); c.done.Wait(); end() }
	go c.pulse.run(beats)
	for _, client := range clients {
		for _, w := range daemon.Transports() {
			c.done.Go(func() { c.keepAsking(ctx, client, w) })
		}
	}
	return c
}

// Add adds a target, and waits until every client had an answer over every way.
func (c *Crowd) Add(ctx context.Context, t Target) error {
	a := &asked{Target: t, answered: map[string]bool{}}
	c.mu.Lock()
	c.asked = append(c.asked, a)
	c.mu.Unlock()
	return eventually.Try(ctx, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if all := c.clients * len(daemon.Transports()); len(a.answered) < all {
			return fmt.Errorf("ask %s: %d of %d had an answer", a.Name, len(a.answered), all)
		}
		return nil
	})
}

// Longest returns how long an answer took at most since the last call.
func (c *Crowd) Longest() (longest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	longest, c.longest = c.longest, 0
	return longest
}

// Stop stops the clients, after their last requests, and returns the number of requests, for the
// caller to check, and the failures. Requests that timed out while the machine was paused do not
// count.
func (c *Crowd) Stop() (questions int, err error) {
	c.stop()
	err = c.err
	if c.failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d requests failed, the first ones:\n%s", c.failed, c.count, strings.Join(c.failures, "\n")))
	}
	return c.count, err
}

// keepAsking sends requests to one target after the other.
func (c *Crowd) keepAsking(ctx context.Context, client *Client, w daemon.Transport) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if a := c.next(n); a != nil {
			start := time.Now()
			answer, err := client.Ask(w, a.At(w.Family))
			c.record(a, fmt.Sprintf("%s asks over %s", client, w), start, answer, err)
		}
	}
}

// next returns the target of the n-th request; nil if there is none.
func (c *Crowd) next(n int) *asked {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) == 0 {
		return nil
	}
	return c.asked[n%len(c.asked)]
}

func (c *Crowd) record(a *asked, who string, start time.Time, answer lab.Answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = errors.Join(c.err, err)
	if err != nil || answer.Outcome == lab.TimedOut && c.pulse.stopped(start, time.Now()) {
		return
	}
	if answer.Outcome == lab.Answered {
		c.count++
		c.longest = max(c.longest, answer.Took)
		a.answered[who] = true
		return
	}
	if !a.answered[who] {
		return // not programmed yet
	}
	c.count++
	c.failed++
	if !c.failing[who] {
		c.failing[who] = true
		c.failures = append(c.failures, fmt.Sprintf("%s: %s of %s: %s", start.Format("15:04:05.000"), who, a.Name, answer))
	}
}

// beat is the interval of a pulse, and faint the delay of a beat by which a pause of the
// machine is detected.
const (
	beat  = 20 * time.Millisecond
	faint = 200 * time.Millisecond
)

// pulse detects pauses of the machine or of this process: a request that timed out in a
// pause proves nothing about rules.
type pulse struct {
	mu    stdsync.Mutex
	last  time.Time
	stops []stop
}

// stop is a time without a beat.
type stop struct{ from, to time.Time }

// run beats until ctx ends.
func (p *pulse) run(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for p.beatAt(time.Now()); ; p.beatAt(time.Now()) {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (p *pulse) beatAt(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.last.IsZero() && now.Sub(p.last) > faint {
		p.stops = append(p.stops, stop{p.last, now})
	}
	p.last = now
}

// stopped reports whether there was a pause between two times.
func (p *pulse) stopped(from, to time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to.Sub(p.last) > faint { // a pause that is not over
		return true
	}
	for _, s := range p.stops {
		if s.from.Before(to) && s.to.After(from) {
			return true
		}
	}
	return false
}
