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

// pause is how long each client rests between two questions over one way.
const pause = 40 * time.Millisecond

// Crowd is clients that ask all the time, each over all ways at once.
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
	losses   []loss
	err      error
}

// Asked is a target that a crowd asks.
type Asked struct {
	Target
	crowd *Crowd
	// guarded by the crowd's mutex
	answered map[string]bool // who had an answer, by client and way
	underway int
	gone     bool
	idle     chan struct{} // closed when gone and nothing is underway
}

// Start lets the clients ask, until they are stopped. There is nothing to ask
// yet.
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

// Add makes a target one of those that are asked.
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

// Remove ends the questions; none is underway when it returns.
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

// Stop ends all questions and returns what went wrong. That so many were asked is
// for the caller to judge; those that timed out while the machine stood still are
// not among them. A lone question that was lost is no failure, several at once are.
func (c *Crowd) Stop() (questions int, err error) {
	c.stop()
	c.done.Wait()
	err = c.err
	for _, l := range suspicious(c.losses, c.count) {
		c.failed++
		c.failures = append(c.failures, l.String())
	}
	if c.failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d questions failed, the first ones:\n%s", c.failed, c.count, strings.Join(c.failures, "\n")))
	}
	return c.count, err
}

// keepAsking asks one target after the other.
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

// ask asks once, or twice if the first question is lost.
func (c *Crowd) ask(a *Asked, client *Client, w daemon.Transport) {
	who, start := fmt.Sprintf("%s asks over %s", client, w), time.Now()
	answer, err := client.Ask(w, a.At(w.Family))
	if err == nil && answer.Outcome == lab.TimedOut {
		c.lose(a, who, start)
		start = time.Now()
		answer, err = client.Ask(w, a.At(w.Family))
	}
	c.end(a, who, start, answer, err)
}

// lose notes that a question was lost, if that says anything.
func (c *Crowd) lose(a *Asked, who string, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.answered[who] && !c.pulse.stopped(asked, time.Now()) {
		c.losses = append(c.losses, loss{asked, fmt.Sprintf("%s of %s: lost", who, a.Name)})
	}
}

// begin chooses the target of the n-th question; nil if there is none.
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

// end takes in what came of a question.
func (c *Crowd) end(a *Asked, who string, asked time.Time, answer lab.Answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.underway--
	if a.gone && a.underway == 0 {
		close(a.idle)
	}
	c.err = errors.Join(c.err, err)
	fault := ""
	switch {
	case err != nil, answer.Outcome == lab.TimedOut && c.pulse.stopped(asked, time.Now()):
		return
	case answer.Outcome != lab.Answered:
		fault = answer.String()
	case a.Check != nil:
		if err := a.Check(answer, asked); err != nil {
			fault = err.Error()
		}
	}
	if fault == "" {
		a.answered[who] = true
	} else if !a.answered[who] {
		return // not programmed yet
	}
	c.count++
	if fault == "" {
		return
	}
	c.failed++
	if !c.failing[who] {
		c.failing[who] = true
		c.failures = append(c.failures, fmt.Sprintf("%s: %s of %s: %s", asked.Format("15:04:05.000"), who, a.Name, fault))
	}
}
