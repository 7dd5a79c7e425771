package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/sync/source/cluster"
	"kube-vmap/sync/source/cluster/apitest"
)

const absentLine = `node node-1 "" [invalid IP invalid IP] [invalid Prefix invalid Prefix] "there is no Node object node-1"`

func TestFirstBurstWaitsForNode(t *testing.T) {
	for name, c := range map[string]struct {
		comes time.Duration
		takes time.Duration
		want  string
		warns int
	}{
		"there from the start": {0, 0, nodeLine, 0},
		"in time":              {29 * time.Second, 29 * time.Second, nodeLine, 0},
		"not in time":          {31 * time.Second, 30 * time.Second, absentLine, 1},
	} {
		inBubble(t, name, func(t *testing.T) {
			s, start := apitest.New(), time.Now()
			time.AfterFunc(c.comes, func() { s.Put(node()) })
			synctest.Wait()
			r := run(t, s)
			if got := lines(r.next(time.Hour)); got != c.want {
				t.Errorf("the first burst is %s, want %s", got, c.want)
			}
			if took := time.Since(start); took != c.takes {
				t.Errorf("it took %s, want %s", took, c.takes)
			}
			if got := r.logged("level=WARN"); got != c.warns {
				t.Errorf("%d warnings, want %d", got, c.warns)
			}
			if c.want == absentLine {
				if got := lines(r.next(time.Minute)); got != nodeLine {
					t.Errorf("then %s, want %s", got, nodeLine)
				}
			}
		})
	}
}

func TestFirstBurstWaitsForPodCIDRs(t *testing.T) {
	need := func(c *cluster.Config) { c.NeedPodRanges = true }
	want := strings.ReplaceAll(nodeLine, "invalid Prefix invalid Prefix", "10.1.0.0/24 fd00:1::/64")
	inBubble(t, "assigned late", func(t *testing.T) {
		r := run(t, apitest.New(), need)
		r.quiet(20 * time.Second)
		r.Put(node())
		r.quiet(4 * time.Minute)
		r.Put(withPodCIDRs(node()))
		if got := lines(r.now()); got != want {
			t.Errorf("the first burst is %s, want %s", got, want)
		}
	})
	for name, objects := range map[string][]apitest.Object{"without a Node": nil, "with a Node": {node()}} {
		inBubble(t, "never "+name, func(t *testing.T) {
			s := apitest.New()
			s.Put(objects...)
			start := time.Now()
			r := run(t, s, need)
			err := <-r.done
			if err == nil || !strings.Contains(err.Error(), "node-1") || !strings.Contains(err.Error(), "pod CIDRs") {
				t.Errorf("the source ended with %v", err)
			}
			if took := time.Since(start); took < 5*time.Minute || took > 6*time.Minute {
				t.Errorf("after %s", took)
			}
		})
	}
}

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
