package cluster_test

import (
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
