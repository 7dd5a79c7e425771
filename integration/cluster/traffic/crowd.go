package traffic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	stdsync "sync"
	"time"

	"kube-vmap/integration/daemon"
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

	mu       stdsync.Mutex
	asked    []*Asked
	count    int
	failed   int
	failures []string        // the first of each client and way
	failing  map[string]bool // those
	err      error
}

// Asked is a target of a crowd.
type Asked struct {
	Target
	crowd *Crowd
	// guarded by the crowd's mutex
	answered map[string]bool // who had an answer, by client and way
	underway int
	gone     bool
	idle     chan struct{} // closed when removed and no request is under way
}

// Start starts the clients. There is no target yet.
func Start(clients ...*Client) *Crowd {
	ctx, stop := context.WithCancel(context.Background())
	c := &Crowd{clients: len(clients), stop: stop, failing: map[string]bool{}, pulse: &pulse{last: time.Now()}}
	c.done.Go(func() { c.pulse.run(ctx) })
	for _, client := range clients {
		for _, w := range daemon.Transports() {
			c.done.Go(func() { c.keepAsking(ctx, client, w) })
		}
	}
	return c
}

// Add adds a target.
func (c *Crowd) Add(t Target) *Asked {
	a := &Asked{Target: t, crowd: c, answered: map[string]bool{}, idle: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, a)
	return a
}

// Await waits until every client had an answer over every way.
func (a *Asked) Await(ctx context.Context) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		a.crowd.mu.Lock()
		missing := a.crowd.clients*len(daemon.Transports()) - len(a.answered)
		a.crowd.mu.Unlock()
		if missing == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ask %s: %d of %d without an answer: %w", a.Name, missing, a.crowd.clients*len(daemon.Transports()), ctx.Err())
		case <-ticker.C:
		}
	}
}

// Remove removes the target; no request to it is under way when it returns.
func (a *Asked) Remove() {
	c := a.crowd
	c.mu.Lock()
	c.asked = slices.DeleteFunc(c.asked, func(other *Asked) bool { return other == a })
	a.gone = true
	if a.underway == 0 {
		close(a.idle)
	}
	c.mu.Unlock()
	<-a.idle
}

// Stop stops the clients and returns the number of requests, for the caller to check, and
// the failures. Requests that timed out while the machine was paused do not count.
func (c *Crowd) Stop() (questions int, err error) {
	c.stop()
	c.done.Wait()
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
		if a := c.begin(n); a != nil {
			c.ask(a, client, w)
		}
	}
}

// ask sends a request.
func (c *Crowd) ask(a *Asked, client *Client, w daemon.Transport) {
	who, start := fmt.Sprintf("%s asks over %s", client, w), time.Now()
	answer, err := client.Ask(w, a.At(w.Family))
	c.end(a, who, start, answer, err)
}

// begin returns the target of the n-th request; nil if there is none.
func (c *Crowd) begin(n int) *Asked {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) == 0 {
		return nil
	}
	a := c.asked[n%len(c.asked)]
	a.underway++
	return a
}

// end records the outcome of a request.
func (c *Crowd) end(a *Asked, who string, asked time.Time, answer lab.Answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.underway--
	if a.gone && a.underway == 0 {
		close(a.idle)
	}
	c.err = errors.Join(c.err, err)
	answered := answer.Outcome == lab.Answered
	switch {
	case err != nil, answer.Outcome == lab.TimedOut && c.pulse.stopped(asked, time.Now()):
		return
	case answered && a.Answered != nil:
		a.Answered(answer)
	}
	if !answered && !a.answered[who] {
		return // not programmed yet
	}
	c.count++
	if answered {
		a.answered[who] = true
		return
	}
	c.failed++
	if !c.failing[who] {
		c.failing[who] = true
		c.failures = append(c.failures, fmt.Sprintf("%s: %s of %s: %s", asked.Format("15:04:05.000"), who, a.Name, answer))
	}
}
