package cluster_test

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync/source/cluster"
	"kube-vmap/sync/source/cluster/apitest"
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
	counts := [2]int{r.logged("level=WARN"), r.logged("level=INFO msg=\"API server available again\"")}
	if got, more := counts[0]-r.counted[0], counts[1]-r.counted[1]; got != warnings || more != infos {
		r.Errorf("%s: %d warnings, %d recoveries, want %d, %d; log:\n%s", about, got, more, warnings, infos, r.log)
	}
	r.counted = counts
}

// TestShortOutagesAreRateLimited expects one warning in five minutes for each of two reasons: short
// watches are one, too. Between outages each kind can be read: its longest delay is 20 seconds.
func TestShortOutagesAreRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		for range 160 { // an hour
			r.SetDown(true)
			r.quiet(2 * time.Second)
			r.SetDown(false)
			r.quiet(21 * time.Second)
		}
		r.quiet(time.Minute)
		if n, ends := r.logged("level=WARN"), r.logged("available again"); n > 2*13 || n < ends {
			t.Errorf("%d warnings in an hour, %d ends", n, ends)
		}
	})
}

// TestEachOutageIsLoggedOnce has outages that follow each other.
func TestEachOutageIsLoggedOnce(t *testing.T) {
	down, up := func(r *rig) { r.SetDown(true) }, func(r *rig) { r.SetDown(false) }
	type step struct {
		about           string
		change          func(*rig)
		lasts           time.Duration
		warnings, infos int
	}
	for name, steps := range map[string][]step{
		"another reason": {
			{"connection refused", down, time.Minute, 1, 0},
			{"another reason", func(r *rig) { setStatus(r.Server, 401); r.SetDown(false) }, time.Hour, 1, 0},
		},
		"a second one": {
			{"the first", down, 10 * time.Second, 1, 0},
			{"its end", up, time.Minute, 0, 1},
			{"the second, which may not last", down, 29 * time.Second, 0, 0},
			{"the second, which lasts", func(*rig) {}, time.Hour, 1, 0},
			{"its end", up, time.Minute, 0, 1},
			{"a third", down, time.Minute, 1, 0},
		},
		"another kind fails meanwhile": {
			{"the first", func(r *rig) { r.SetStatus("services", 500); r.EndWatches() }, 10 * time.Second, 1, 0},
			{"its end", func(r *rig) { r.SetStatus("services", 0) }, time.Minute, 0, 1},
			{"the second", func(r *rig) { r.SetStatus("services", 500); r.EndWatches() }, 5 * time.Second, 0, 0},
			{"another kind", func(r *rig) { r.SetStatus("nodes", 403); r.EndWatches() }, time.Minute, 2, 0},
		},
		"a kind is lost permanently": {
			{"the loss", func(r *rig) { r.SetStatus("nodes", 403); r.EndWatches() }, time.Minute, 1, 0},
			{"an outage", down, 3 * time.Minute, 1, 0},
			{"its end", up, 29 * time.Second, 0, 0},
			{"another outage", down, time.Minute, 1, 0},
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			r := started(t)
			for _, s := range steps {
				s.change(r)
				r.quiet(s.lasts)
				r.expectLogs(s.about, s.warnings, s.infos)
			}
		})
	}
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
			r.expectLogs("quiet", 0, 1)
			r.EndWatches()
			r.quiet(10 * time.Minute)
			r.expectLogs("a lone cut", 0, 0)
		})
	}
}

// A lost network responds to no request.
type lost struct{}

// RoundTrip implements [http.RoundTripper].
func (lost) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(30 * time.Second): // of client-go's dialer
	}
	at := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:6443"))
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: os.ErrDeadlineExceeded}
}

// TestTimeoutsAreNamed expects the cause of an outage although the client only returns a watch
// without events.
func TestTimeoutsAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := filled()
		config := s.Config()
		config.Transport = lost{}
		r := run(t, s, func(c *cluster.Config) { c.Client = clientOf(config) })
		r.quiet(10 * time.Minute)
		const want = "dial tcp 192.0.2.1:6443: i/o timeout"
		if n := r.logged(`level=WARN msg="API server unavailable`); n != 1 || r.logged(`err="`+want) == 0 {
			t.Errorf("logged %d times, want once with %q:\n%s", n, want, r.log)
		}
		for kind, p := range r.positions() {
			if p.Err == nil || !strings.Contains(p.Err.Error(), want) {
				t.Errorf("%s: error %v, want one with %q", kind, p.Err, want)
			}
		}
	})
}

// TestLostResponseIsAnOutage has a network that loses a response or the rest of a watch, but not the
// connection. Requests that follow get responses, but nothing tells the client about the loss.
func TestLostResponseIsAnOutage(t *testing.T) {
	for name, c := range map[string]struct {
		lose, find func(*apitest.Server)
		within     time.Duration
	}{
		"the rest of a watch": {
			lose:   func(s *apitest.Server) { s.SetUnresponsive(true) },
			find:   func(s *apitest.Server) { s.SetUnresponsive(false) },
			within: 3 * time.Minute, // without bookmarks
		},
		"a response to a watch": {
			lose:   func(s *apitest.Server) { setStatus(s, apitest.NoResponse); s.EndWatches() },
			find:   func(s *apitest.Server) { setStatus(s, 0) },
			within: 10*time.Minute + 30*time.Second,
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			r := started(t)
			r.quiet(time.Hour)
			r.expectLogs("before", 0, 0)
			r.Put(service("new", 9))
			r.now()
			r.SendBookmarks()
			r.quiet(0)
			c.lose(r.Server)
			r.Put(service("web-0", 9), slice("web-0", model.IPv4, 9))
			r.quiet(30 * time.Second)
			c.find(r.Server)
			for got := 0; got < 2; {
				got += len(r.next(c.within))
			}
			r.pass(6 * time.Minute) // until each watch had a bookmark
			r.expectLogs(name, 1, 1)
			r.quiet(time.Hour)
			r.expectLogs("after", 0, 0)
		})
	}
}

func TestLostResponseAtTheStartIsAnOutage(t *testing.T) {
	for name, prepare := range map[string]func(*apitest.Server){
		"streamed": func(*apitest.Server) {},
		"listed":   (*apitest.Server).DisableStreamedLists,
	} {
		inBubble(t, name, func(t *testing.T) {
			s := filled()
			prepare(s)
			setStatus(s, apitest.NoResponse)
			r := run(t, s)
			r.quiet(32 * time.Second)
			r.expectLogs(name, 1, 0)
			setStatus(s, 0)
			r.next(6 * time.Minute)
			r.pass(30 * time.Second)
			r.expectLogs(name, 0, 1)
		})
	}
}

// TestListsAreNotStreamedIfTheirEndIsLost has a server, or a proxy before it, that streams lists and all
// that changes, but not the bookmark that ends a list.
func TestListsAreNotStreamedIfTheirEndIsLost(t *testing.T) {
	for name, begin := range map[string]func(*apitest.Server) func(*rig){
		"from the start": func(s *apitest.Server) func(*rig) { s.LoseEndOfLists(); return func(*rig) {} },
		"after a 410": func(s *apitest.Server) func(*rig) {
			return func(r *rig) {
				r.next(time.Second)
				s.LoseEndOfLists()
				s.SetDown(true)
				s.Put(service("missed", 20))
				s.Compact()
				s.SetDown(false)
			}
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := filled()
			then := begin(s)
			r := run(t, s)
			then(r)
			before := len(s.Requests())
			for i := range 30 { // a trickle of changes is not the end
				s.Put(service("trickle", 30+i), slice("trickle", model.IPv4, i))
				r.quiet(time.Second)
			}
			for kind, p := range r.positions() {
				if age := time.Since(p.Heard); age < 30*time.Second || r.source.Age() < age {
					t.Errorf("%s is at %+v, the source %s behind", kind, p, r.source.Age())
				}
			}
			r.next(4 * time.Second)
			r.pass(3 * time.Second)
			r.expectLogs(name, 1, 1)
			for i := range 3 {
				s.Put(service("later", 90+i))
				r.next(time.Second)
				s.SetDown(true)
				s.Put(service("last", 80+i))
				s.Compact()
				s.SetDown(false)
				r.next(time.Minute)
			}
			streams := map[string]int{}
			for _, request := range s.Requests()[before:] {
				if request.Query["sendInitialEvents"] != nil {
					streams[request.Resource]++
				}
			}
			for resource, n := range streams {
				if n > 2 {
					t.Errorf("%d streamed lists of %s", n, resource)
				}
			}
		})
	}
}

// cannedResponses responds to all requests alike, and to none after the first thousand.
type cannedResponses struct {
	code     int
	body     string
	requests atomic.Int32
	reasons  int // of failures
}

// RoundTrip implements [http.RoundTripper].
func (c *cannedResponses) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.requests.Add(1) > 1000 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: c.code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(c.body)), Request: r,
	}, nil
}

// TestExpiredListsAreAnOutage has servers that report even a new list as expired, and one that
// ends each list at its begin: client-go requests such lists again without a delay.
func TestExpiredListsAreAnOutage(t *testing.T) {
	const expired = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
	for name, c := range map[string]*cannedResponses{
		"status": {reasons: 1, code: 410, body: expired},
		// Nor is this a list, when it is no longer streamed.
		"event": {reasons: 2, code: 200, body: `{"type":"ERROR","object":` + expired + `}`},
		"ends":  {reasons: 2, code: 200, body: `{"type":"BOOKMARK","object":{"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}`},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := filled()
			config := s.Config()
			config.Transport = c
			r := run(t, s, func(to *cluster.Config) { to.Client = clientOf(config) })
			r.quiet(2 * time.Minute)
			if n := c.requests.Load(); n > 4*30 {
				t.Errorf("%d requests in two minutes", n)
			}
			r.expectLogs(name, c.reasons, 0)
		})
	}
}
