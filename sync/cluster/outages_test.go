package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/sync/cluster/apitest"
)

// setStatus makes all requests fail with a status; zero ends that.
func setStatus(s *apitest.Server, code int) {
	for _, resource := range []string{"services", "endpointslices", "servicecidrs", "nodes"} {
		s.SetStatus(resource, code)
	}
}

// expectLogs checks how many warnings and recoveries were logged since the last call.
func (r *rig) expectLogs(about string, warnings, infos int) {
	r.Helper()
	warned, again := strings.Count(r.infoLog(), "level=WARN"), strings.Count(r.infoLog(), "again\"")
	if got := warned - r.counted[0]; got != warnings {
		r.Errorf("%s: %d warnings, want %d; log:\n%s", about, got, warnings, r.infoLog())
	}
	if got := again - r.counted[1]; got != infos {
		r.Errorf("%s: %d recoveries, want %d; log:\n%s", about, got, infos, r.infoLog())
	}
	r.counted = [2]int{warned, again}
}

// TestShortOutagesAreRateLimited expects one warning in five minutes for each of two reasons: short
// watches are one, too.
func TestShortOutagesAreRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		for range 360 { // an hour
			r.SetDown(true)
			r.quiet(2 * time.Second)
			r.SetDown(false)
			r.quiet(8 * time.Second)
		}
		r.quiet(time.Minute)
		if n := r.logged("level=WARN"); n > 2*13 {
			t.Errorf("%d warnings in an hour", n)
		}
		if n, m := r.logged("level=WARN"), strings.Count(r.infoLog(), "again\""); n < m {
			t.Errorf("%d warnings, %d ends", n, m)
		}
	})
}

func TestOtherReasonIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		r.SetDown(true)
		r.quiet(time.Minute)
		r.expectLogs("connection refused", 1, 0)
		setStatus(r.Server, 401)
		r.SetDown(false)
		r.quiet(time.Hour)
		r.expectLogs("another reason", 1, 0)
	})
}

func TestSecondOutageIsLoggedIfItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		r.SetDown(true)
		r.quiet(10 * time.Second)
		r.SetDown(false)
		r.quiet(time.Minute)
		r.expectLogs("the first", 1, 1)
		r.SetDown(true)
		r.quiet(time.Minute)
		r.expectLogs("the second, which may not last", 0, 0)
		r.quiet(time.Hour)
		r.expectLogs("the second, which lasts", 1, 0)
		r.SetDown(false)
		r.quiet(time.Minute)
		r.expectLogs("its end", 0, 1)
	})
}

func TestPermanentlyLostKindHidesNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		r.SetStatus("nodes", 403)
		r.EndWatches()
		r.quiet(time.Minute)
		r.expectLogs("a kind is lost", 1, 0)
		r.SetDown(true)
		r.quiet(3 * time.Minute)
		r.expectLogs("an outage", 1, 0)
	})
}

func TestShortWatchesAreLogged(t *testing.T) {
	for name, prepare := range map[string]func(*apitest.Server){
		"streamed": func(*apitest.Server) {},
		"listed":   (*apitest.Server).DisableStreamedLists,
	} {
		inBubble(t, name, func(t *testing.T) {
			s := filled()
			prepare(s)
			r := run(t, s)
			r.now()
			for r.logged("level=WARN") == 0 {
				r.EndWatches()
				r.quiet(500 * time.Millisecond)
			}
			requests, most := map[string]int{}, 0
			for _, request := range s.Requests() {
				requests[request.Resource]++
				most = max(most, requests[request.Resource])
			}
			if name == "streamed" && most != 5 {
				t.Errorf("logged after these numbers of watches: %v, want 5", requests)
			}
			for range 2 * 5 * 60 { // five minutes
				r.EndWatches()
				r.quiet(500 * time.Millisecond)
			}
			r.expectLogs("the cuts", 1, 0)
			r.quiet(10 * time.Minute)
			r.expectLogs("calm", 0, 1)
			r.EndWatches()
			r.quiet(10 * time.Minute)
			r.expectLogs("a lone cut", 0, 0)
		})
	}
}
