package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestServiceCIDRsAreOptional(t *testing.T) {
	for _, c := range []struct {
		code            int
		within          time.Duration // until the first burst
		atLeast, atMost int           // requests in a day
		noticed         time.Duration // how soon objects are seen
	}{
		{404, 0, 50, 300, 20 * time.Minute},
		// Refusals count after 15 seconds, and the next attempt is up to 20 later.
		{403, 36 * time.Second, 24 * 60, 2 * 24 * 60, time.Minute},
	} {
		inBubble(t, fmt.Sprint(c.code), func(t *testing.T) {
			s, start := filled(), time.Now()
			s.SetStatus("servicecidrs", c.code)
			r := run(t, s)
			_, want, _ := strings.Cut(all, "\n")
			if got := lines(r.next(time.Minute)); got != want {
				t.Errorf("the first burst is\n%s\nwant\n%s", got, want)
			}
			if took := time.Since(start); took > c.within || c.within > 0 && took < 15*time.Second {
				t.Errorf("the first burst took %s", took)
			}
			r.quiet(24 * time.Hour)
			asked := 0
			for _, request := range s.Requests() {
				if request.Resource == "servicecidrs" {
					asked++
				}
			}
			if asked < c.atLeast || asked > c.atMost {
				t.Errorf("%d requests in a day", asked)
			}
			if n := r.logged("API resource unavailable"); n != 1 {
				t.Errorf("logged %d times", n)
			}
			s.SetStatus("servicecidrs", 0)
			if got, want := lines(r.next(c.noticed)), "cidrs [10.96.0.0/16 fd00:96::/112]"; got != want {
				t.Errorf("then %s, want %s", got, want)
			}
			// Known objects stay when the server refuses them later.
			s.SetStatus("servicecidrs", c.code)
			s.EndWatches()
			r.quiet(time.Hour)
			if n := r.logged("level=WARN"); n > 0 {
				t.Errorf("%d warnings", n)
			}
		})
	}
}

// TestShortRefusalsDoNotCount checks that refusals must last for 15 seconds, without
// other errors in between.
func TestShortRefusalsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := filled()
		r := run(t, s)
		r.now()
		for range 100 { // a server that restarts
			s.SetDown(true)
			r.quiet(10 * time.Second)
			setStatus(s, 403)
			s.SetDown(false)
			r.quiet(10 * time.Second)
			setStatus(s, 0)
			r.quiet(time.Minute)
		}
		s.SetStatus("servicecidrs", 503)
		s.EndWatches()
		for range 100 {
			r.quiet(8 * time.Second)
			s.SetStatus("servicecidrs", 403)
			r.quiet(14 * time.Second)
			s.SetStatus("servicecidrs", 503)
			r.quiet(21 * time.Second)
		}
		if n := r.logged("API resource unavailable"); n > 0 {
			t.Errorf("logged %d times", n)
		}
	})
}
