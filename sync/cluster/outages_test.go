package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/sync/cluster/apitest"
)

// answer makes all requests be answered with a status; zero ends that.
func answer(s *apitest.Server, code int) {
	for _, resource := range []string{"services", "endpointslices", "servicecidrs", "nodes"} {
		s.SetStatus(resource, code)
	}
}

// says checks how many lines there are since the last time, of warnings and of
// information.
func (r *rig) says(about string, warnings, infos int) {
	r.Helper()
	warned, again := strings.Count(r.loud(), "level=WARN"), strings.Count(r.loud(), "again\"")
	if got := warned - r.heard[0]; got != warnings {
		r.Errorf("%s: %d warnings, want %d; log:\n%s", about, got, warnings, r.loud())
	}
	if got := again - r.heard[1]; got != infos {
		r.Errorf("%s: %d lines of what works again, want %d; log:\n%s", about, got, infos, r.loud())
	}
	r.heard = [2]int{warned, again}
}

func TestAnOutageOfChangingReasonsIsNotSaidEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, filled())
		r.now()
		for range 360 { // an hour
			answer(r.Server, 503)
			r.EndWatches()
			r.quiet(5 * time.Second)
			r.SetDown(true)
			r.quiet(5 * time.Second)
			r.SetDown(false)
		}
		// One for each of the two reasons.
		r.says("the outage", 2, 0)
		answer(r.Server, 0)
		r.quiet(10 * time.Minute)
		r.says("the end", 0, 1)
		r.stop()
	})
}

func TestAReasonThatLastsIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, filled())
		r.now()
		r.SetDown(true)
		r.quiet(30 * time.Second)
		r.says("nobody listens", 1, 0)
		answer(r.Server, 401)
		r.SetDown(false)
		r.quiet(4 * time.Minute)
		r.says("another reason so soon", 0, 0)
		r.quiet(time.Hour)
		r.says("another reason that lasts", 1, 0)
		answer(r.Server, 0)
		r.quiet(10 * time.Minute)
		r.says("the end", 0, 1)
		r.stop()
	})
}

func TestAKindLostForGoodHidesNoOutage(t *testing.T) {
	for name, outage := range map[string]struct{ begin, end func(*apitest.Server) }{
		"nobody listens": {
			func(s *apitest.Server) { s.SetDown(true) },
			func(s *apitest.Server) { s.SetDown(false) },
		},
		"bad answers": {
			func(s *apitest.Server) { answer(s, 503); s.EndWatches() },
			func(s *apitest.Server) { answer(s, 0); s.SetStatus("nodes", 403) },
		},
	} {
		for wait, after := range map[string]time.Duration{"a minute later": time.Minute, "much later": 10 * time.Minute} {
			t.Run(name+" "+wait, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := run(t, filled())
					r.now()
					r.SetStatus("nodes", 403)
					r.EndWatches()
					r.quiet(after)
					r.says("a kind is lost", 1, 0)
					for range 3 {
						outage.begin(r.Server)
						r.quiet(time.Hour)
						r.says("the outage", 1, 0)
						outage.end(r.Server)
						r.quiet(10 * time.Minute)
						r.says("its end", 0, 1)
					}
					r.SetStatus("nodes", 0)
					r.quiet(time.Minute)
					r.says("all can be read", 0, 1)
					r.stop()
				})
			})
		}
	}
}

func TestTheReturnOfAllButOneKindIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, filled())
		r.now()
		r.SetDown(true)
		r.quiet(10 * time.Minute)
		r.says("the outage", 1, 0)
		r.SetStatus("nodes", 403)
		r.SetDown(false)
		r.quiet(time.Hour)
		r.says("the return of most, and why not of all", 1, 1)
		if r.logged("but=[Node]") != 1 {
			t.Errorf("log:\n%s", r.loud())
		}
		r.SetDown(true)
		r.quiet(time.Hour)
		r.says("an outage of the others", 1, 0)
		r.stop()
	})
}

// TestShortOutagesAreSaidNowAndThen wants one in five minutes.
func TestShortOutagesAreSaidNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, filled())
		r.now()
		for range 360 { // an hour
			r.SetDown(true)
			r.quiet(2 * time.Second)
			r.SetDown(false)
			r.quiet(8 * time.Second)
		}
		r.quiet(10 * time.Minute)
		if n := r.logged("level=WARN"); n < 1 || n > 13 {
			t.Errorf("%d warnings in an hour; log:\n%s", n, r.loud())
		}
		if n, m := r.logged("level=WARN"), strings.Count(r.loud(), "again\""); n != m {
			t.Errorf("%d warnings, %d ends; log:\n%s", n, m, r.loud())
		}
		r.stop()
	})
}

func TestWatchesThatDoNotLastAreSaidOnce(t *testing.T) {
	for name, prepare := range map[string]func(*apitest.Server){
		"streamed": func(*apitest.Server) {},
		"listed":   (*apitest.Server).DisableStreamedLists,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := filled()
				prepare(s)
				r := run(t, s)
				r.now()
				for range 2 * 3600 { // an hour
					r.EndWatches()
					r.quiet(500 * time.Millisecond)
				}
				r.says("the cuts", 1, 0)
				r.quiet(10 * time.Minute)
				r.says("calm", 0, 1)
				r.EndWatches()
				r.quiet(10 * time.Minute)
				r.says("a lone cut", 0, 0)
				r.stop()
			})
		})
	}
}

// TestAnOutageSoonAfterAnotherIsSaidWhenItLasts wants it after a minute, at the
// next try.
func TestAnOutageSoonAfterAnotherIsSaidWhenItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, filled())
		r.now()
		r.SetDown(true)
		r.quiet(10 * time.Second)
		r.SetDown(false)
		r.quiet(time.Minute)
		r.says("the first", 1, 1)
		r.SetDown(true)
		r.quiet(50 * time.Second)
		r.says("the second, which may not last", 0, 0)
		r.quiet(time.Minute)
		r.says("the second, which lasts", 1, 0)
		r.SetDown(false)
		r.quiet(time.Minute)
		r.says("its end", 0, 1)
		r.stop()
	})
}
