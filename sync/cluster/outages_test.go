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

func TestAlternatingErrorsAreOneOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		for range 360 { // an hour
			setStatus(r.Server, 503)
			r.EndWatches()
			r.quiet(5 * time.Second)
			r.SetDown(true)
			r.quiet(5 * time.Second)
			r.SetDown(false)
		}
		// At most one for each of the two reasons; each may seem to last.
		r.counted[0] = min(strings.Count(r.infoLog(), "level=WARN"), 2)
		r.expectLogs("the outage", 0, 0)
		setStatus(r.Server, 0)
		r.quiet(10 * time.Minute)
		r.expectLogs("the end", 0, 1)
	})
}

func TestLastingReasonIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		r.SetDown(true)
		r.quiet(30 * time.Second)
		r.expectLogs("connection refused", 1, 0)
		setStatus(r.Server, 401)
		r.SetDown(false)
		r.quiet(4 * time.Minute)
		r.expectLogs("another reason so soon", 0, 0)
		r.quiet(time.Hour)
		r.expectLogs("another reason that lasts", 1, 0)
		setStatus(r.Server, 0)
		r.quiet(10 * time.Minute)
		r.expectLogs("the end", 0, 1)
	})
}

func TestPermanentlyLostKindHidesNoOutage(t *testing.T) {
	for name, outage := range map[string]struct{ begin, end func(*apitest.Server) }{
		"connection refused": {
			func(s *apitest.Server) { s.SetDown(true) },
			func(s *apitest.Server) { s.SetDown(false) },
		},
		"error responses": {
			func(s *apitest.Server) { setStatus(s, 503); s.EndWatches() },
			func(s *apitest.Server) { setStatus(s, 0); s.SetStatus("nodes", 403) },
		},
	} {
		for wait, after := range map[string]time.Duration{"a minute later": time.Minute, "much later": 10 * time.Minute} {
			inBubble(t, name+" "+wait, func(t *testing.T) {
				r := started(t)
				r.SetStatus("nodes", 403)
				r.EndWatches()
				r.quiet(after)
				r.expectLogs("a kind is lost", 1, 0)
				for range 3 {
					outage.begin(r.Server)
					r.quiet(time.Hour)
					r.expectLogs("the outage", 1, 0)
					outage.end(r.Server)
					r.quiet(10 * time.Minute)
					r.expectLogs("its end", 0, 1)
				}
				r.SetStatus("nodes", 0)
				r.quiet(time.Minute)
				r.expectLogs("all can be read", 0, 1)
			})
		}
	}
}

func TestPartialRecoveryIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		r.SetDown(true)
		r.quiet(10 * time.Minute)
		r.expectLogs("the outage", 1, 0)
		r.SetStatus("nodes", 403)
		r.SetDown(false)
		r.quiet(time.Hour)
		r.expectLogs("the return of most, and why not of all", 1, 1)
		if r.logged("failing=[Node]") != 1 {
			t.Errorf("log:\n%s", r.infoLog())
		}
		r.SetDown(true)
		r.quiet(time.Hour)
		r.expectLogs("an outage of the others", 1, 0)
	})
}

// TestShortOutagesAreRateLimited expects one warning in five minutes.
func TestShortOutagesAreRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		for range 360 { // an hour
			r.SetDown(true)
			r.quiet(2 * time.Second)
			r.SetDown(false)
			r.quiet(8 * time.Second)
		}
		r.quiet(10 * time.Minute)
		if n := r.logged("level=WARN"); n < 1 || n > 13 {
			t.Errorf("%d warnings in an hour; log:\n%s", n, r.infoLog())
		}
		if n, m := r.logged("level=WARN"), strings.Count(r.infoLog(), "again\""); n != m {
			t.Errorf("%d warnings, %d ends; log:\n%s", n, m, r.infoLog())
		}
	})
}

func TestShortWatchesAreLoggedOnce(t *testing.T) {
	for name, prepare := range map[string]func(*apitest.Server){
		"streamed": func(*apitest.Server) {},
		"listed":   (*apitest.Server).DisableStreamedLists,
	} {
		inBubble(t, name, func(t *testing.T) {
			s := filled()
			prepare(s)
			r := run(t, s)
			r.now()
			for range 2 * 3600 { // an hour
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

// TestSecondOutageIsLoggedIfItLasts expects it a minute after the second outage began,
// at the next attempt.
func TestSecondOutageIsLoggedIfItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		r.SetDown(true)
		r.quiet(10 * time.Second)
		r.SetDown(false)
		r.quiet(time.Minute)
		r.expectLogs("the first", 1, 1)
		r.SetDown(true)
		r.quiet(50 * time.Second)
		r.expectLogs("the second, which may not last", 0, 0)
		r.quiet(time.Minute)
		r.expectLogs("the second, which lasts", 1, 0)
		r.SetDown(false)
		r.quiet(time.Minute)
		r.expectLogs("its end", 0, 1)
	})
}
