package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync/source/cluster"
	"kube-vmap/sync/source/cluster/apitest"
)

// outages are interruptions of the server, with changes meanwhile.
var outages = map[string]func(s *apitest.Server, meanwhile func()){
	"watch ended": func(s *apitest.Server, meanwhile func()) { s.EndWatches(); meanwhile() },
	"compacted":   func(s *apitest.Server, meanwhile func()) { s.SetDown(true); meanwhile(); s.Compact(); s.SetDown(false) },
	"down for 30 s": func(s *apitest.Server, meanwhile func()) {
		s.SetDown(true)
		<-time.After(30 * time.Second)
		meanwhile()
		s.SetDown(false)
	},
	"unavailable for an hour": func(s *apitest.Server, meanwhile func()) {
		setStatus(s, 503)
		defer setStatus(s, 0)
		s.EndWatches()
		meanwhile()
		<-time.After(time.Hour)
	},
	"restarted after a minute": func(s *apitest.Server, meanwhile func()) {
		s.SetDown(true)
		<-time.After(time.Minute)
		meanwhile()
		s.Compact() // a new server has no history
		s.SetDown(false)
	},
	"down and compacted, then without streamed lists": func(s *apitest.Server, meanwhile func()) {
		s.SetDown(true)
		<-time.After(time.Minute)
		meanwhile()
		s.DisableStreamedLists()
		s.Compact()
		s.SetDown(false)
	},
}

func TestOutageSendsOnlyChanges(t *testing.T) {
	for name, outage := range outages {
		inBubble(t, name, func(t *testing.T) {
			r := started(t)
			r.quiet(5 * time.Minute)
			outage(r.Server, func() {
				r.Put(service("new", 9), slice("web-0", model.IPv4, 7, 8, 9))
				r.Delete(service("web-1", 2), slice("web-1", model.IPv4), slice("web-1", model.IPv6))
				r.Put(serviceCIDR("kubernetes", "10.96.0.0/12"))
			})
			want := map[string]bool{
				"service default/new 10.96.0.9": true, "slice default/web-0-ipv4 3": true,
				"no service default/web-1": true, "no slice default/web-1-ipv4": true,
				"no slice default/web-1-ipv6": true, "cidrs [10.96.0.0/12]": true,
			}
			start := time.Now()
			for len(want) > 0 {
				for _, e := range r.next(time.Minute) {
					if !want[line(e)] {
						t.Errorf("got %s", line(e))
					}
					delete(want, line(e))
				}
			}
			if took := time.Since(start); took > 22*time.Second {
				t.Errorf("after the outage, it took %s", took)
			}
			r.quiet(time.Hour)
		})
	}
}

func TestRelistIsOneBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		r.SetDown(true)
		for i := range 100 {
			r.Put(slice("more", model.IPv6, i), slice("web-0", model.IPv4, i), service("more", 20+i))
		}
		r.Delete(slice("web-1", model.IPv4), slice("web-1", model.IPv6))
		r.Compact()
		r.SetDown(false)
		slices := "no slice default/web-1-ipv4\nno slice default/web-1-ipv6\nslice default/more-ipv6 1\nslice default/web-0-ipv4 1"
		services := "service default/more 10.96.0.119"
		for range 2 {
			switch got := lines(r.next(20 * time.Second)); got {
			case slices, services, services + "\n" + slices:
			default:
				t.Errorf("a burst of\n%s", got)
			}
		}
	})
}

// TestSourceStopsInAnyState leaves the stop to the rig.
func TestSourceStopsInAnyState(t *testing.T) {
	down := func(s *apitest.Server) { s.SetDown(true) }
	hang := func(s *apitest.Server) {
		setStatus(s, apitest.NoResponse)
		s.Compact()
		s.EndWatches()
	}
	for name, c := range map[string]struct{ before, after func(*apitest.Server) }{
		"the burst is not taken": {},
		"never up":               {before: down},
		"down":                   {after: down},
		"no response":            {after: hang},
		"no response to lists":   {(*apitest.Server).DisableStreamedLists, hang},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := filled()
			if c.before != nil {
				c.before(s)
			}
			r := run(t, s)
			if c.after != nil {
				r.now()
				c.after(s)
				r.quiet(10 * time.Minute)
			}
			r.pass(time.Hour)
		})
	}
}

// positions returns the positions by kind.
func (r *rig) positions() map[string]cluster.Position {
	out := map[string]cluster.Position{}
	for _, p := range r.source.Positions() {
		out[p.Kind] = p
	}
	return out
}

func TestPositionsFollowObjectsAndBookmarks(t *testing.T) {
	if p := cluster.NewSource(cluster.Config{}, nil).Positions(); p != nil {
		t.Errorf("before it runs, there are %v", p)
	}
	for name, prepare := range map[string]func(*apitest.Server){
		"streamed": func(*apitest.Server) {},
		"listed":   (*apitest.Server).DisableStreamedLists,
	} {
		inBubble(t, name, func(t *testing.T) {
			s := filled()
			prepare(s)
			r := run(t, s)
			r.now()
			list := r.Revision()
			for _, kind := range []string{"Service", "EndpointSlice", "ServiceCIDR", "Node"} {
				if p := r.positions()[kind]; p.ResourceVersion != list || p.Err != nil || !p.FailingSince.IsZero() {
					t.Errorf("after the lists at %s, %s is at %+v", list, kind, p)
				}
			}
			r.Put(slice("web-0", model.IPv6, 9))
			r.now()
			if p := r.positions(); p["EndpointSlice"].ResourceVersion != r.Revision() || p["Service"].ResourceVersion != list {
				t.Errorf("after a change to %s of a slice, the positions are %+v", r.Revision(), p)
			}
			r.SendBookmarks()
			synctest.Wait()
			for kind, p := range r.positions() {
				if p.ResourceVersion != r.Revision() {
					t.Errorf("after a bookmark at %s, %s is at %s", r.Revision(), kind, p.ResourceVersion)
				}
			}
		})
	}
}

func TestPositionStaysDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := started(t)
		before := r.positions()["Service"].ResourceVersion
		lost := time.Now()
		r.SetDown(true)
		r.Put(service("more", 20))
		r.quiet(time.Minute)
		p := r.positions()["Service"]
		if p.ResourceVersion != before || p.Err == nil || p.FailingSince.Before(lost) || time.Since(p.FailingSince) < 30*time.Second {
			t.Errorf("a minute after the server went down at %s the position is %+v", before, p)
		}
		r.SetDown(false)
		r.next(time.Minute)
		r.quiet(time.Minute)
		if p := r.positions()["Service"]; p.ResourceVersion != r.Revision() || p.Err != nil || !p.FailingSince.IsZero() {
			t.Errorf("after the outage the position is %+v", p)
		}
	})
}
