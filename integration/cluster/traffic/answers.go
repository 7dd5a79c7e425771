package traffic

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
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

// AnsweredOver is [Client.AnsweredBy] over one way. One request may time out: that can
// happen on a machine that is paused for a second.
func (c *Client) AnsweredOver(w daemon.Transport, t Target, names ...string) error {
	const few = 4
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
	}
	lost := 0
	for n := 0; n < few || len(missing) > 0; n++ {
		if n == enough {
			return fmt.Errorf("%s asks %s over %s %d times: no answer by %v", c, t.Name, w, n, slices.Sorted(maps.Keys(missing)))
		}
		start := time.Now()
		a, err := c.Ask(w, t.At(w.Family))
		if err == nil && a.Outcome == lab.TimedOut && lost == 0 {
			lost++
			continue
		}
		if err == nil && (a.Outcome != lab.Answered || !slices.Contains(names, a.By)) {
			err = fmt.Errorf("want an answer by %s, but %s", strings.Join(names, " or "), a)
		}
		if err == nil && t.Check != nil {
			err = t.Check(a, start)
		}
		if err != nil {
			return fmt.Errorf("%s asks %s over %s: %w", c, t.Name, w, err)
		}
		delete(missing, a.By)
	}
	return nil
}

// AwaitAnswers waits until [Client.AnsweredBy] has no error.
func (c *Client) AwaitAnswers(ctx context.Context, t Target, names ...string) error {
	return eventually.Try(ctx, func() error { return c.AnsweredBy(t, names...) })
}

// Comes sends a request over every way, all at the same time, and returns an error if one
// has another outcome.
func (c *Client) Comes(t Target, want lab.Outcome, within time.Duration) error {
	return c.ComesOver(daemon.Transports(), t, within, func(o lab.Outcome) bool { return o == want })
}

// ComesOver is [Client.Comes] over some ways, with any outcome that suits.
func (c *Client) ComesOver(ways []daemon.Transport, t Target, within time.Duration, suits func(lab.Outcome) bool) error {
	var group errgroup.Group
	for _, w := range ways {
		group.Go(func() error {
			a, err := c.AskWithin(w, t.At(w.Family), within)
			if err == nil && a.Outcome == lab.TimedOut && !suits(lab.TimedOut) { // see AnsweredOver
				a, err = c.AskWithin(w, t.At(w.Family), within)
			}
			if err == nil && !suits(a.Outcome) {
				err = fmt.Errorf("%s asks %s over %s: unexpected outcome: %s", c, t.Name, w, a)
			}
			return err
		})
	}
	return group.Wait()
}
