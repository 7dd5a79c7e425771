package traffic

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
)

// enough requests make it practically impossible that one of a few endpoints was never
// picked.
const enough = 200

// AnsweredBy sends requests over every way until each of the named hosts has answered, and
// at least a few. An answer by another host, or none, is an error.
func (c *Client) AnsweredBy(t Target, names ...string) error {
	for _, w := range daemon.Transports() {
		if err := c.AnsweredOver(w, t, names...); err != nil {
			return err
		}
	}
	return nil
}

// AnsweredOver is [Client.AnsweredBy] over one way.
func (c *Client) AnsweredOver(w daemon.Transport, t Target, names ...string) error {
	const few = 4
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
	}
	for n := 0; n < few || len(missing) > 0; n++ {
		if n == enough {
			return fmt.Errorf("%s asks %s over %s %d times: no answer by %v", c, t.Name, w, n, slices.Sorted(maps.Keys(missing)))
		}
		a, err := c.AskRunning(w, t.At(w.Family), Timeout)
		if err == nil && (a.Outcome != lab.Answered || !slices.Contains(names, a.By)) {
			err = fmt.Errorf("want an answer by %s, but %s", strings.Join(names, " or "), a)
		}
		if err != nil {
			return fmt.Errorf("%s asks %s over %s: %w", c, t.Name, w, err)
		}
		delete(missing, a.By)
	}
	return nil
}

// Comes sends a request over each of the ways, or over all, at the same time, and returns an error
// if one has another outcome.
func (c *Client) Comes(t Target, want lab.Outcome, within time.Duration, ways ...daemon.Transport) error {
	if len(ways) == 0 {
		ways = daemon.Transports()
	}
	ask := c.AskRunning
	if want == lab.TimedOut {
		ask = c.AskWithin
	}
	var group errgroup.Group
	for _, w := range ways {
		group.Go(func() error {
			a, err := ask(w, t.At(w.Family), within)
			if err == nil && a.Outcome != want {
				err = fmt.Errorf("%s asks %s over %s: unexpected outcome: %s", c, t.Name, w, a)
			}
			return err
		})
	}
	return group.Wait()
}

// AskRunning is [Client.AskWithin], again as long as no answer came and the machine was paused
// meanwhile.
func (c *Client) AskRunning(w daemon.Transport, to netip.AddrPort, within time.Duration) (lab.Answer, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	p := &pulse{last: time.Now()}
	go p.run(ctx)
	for {
		start := time.Now()
		a, err := c.AskWithin(w, to, within)
		if err != nil || a.Outcome != lab.TimedOut || !p.stopped(start, time.Now()) {
			return a, err
		}
	}
}
