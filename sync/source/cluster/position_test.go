package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync/source/cluster"
	"kube-vmap/sync/source/cluster/apitest"
)

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
