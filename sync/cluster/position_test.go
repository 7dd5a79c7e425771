package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync/cluster"
	"kube-vmap/sync/cluster/apitest"
)

// positions returns the positions by kind.
func (r *rig) positions() map[string]cluster.Position {
	out := map[string]cluster.Position{}
	for _, p := range r.source.Positions() {
		out[p.Kind] = p
	}
	return out
}

// newest returns the newest resource version among the server's objects of a kind.
func (r *rig) newest(name string) (version string) {
	for _, o := range r.Objects() {
		if o.GetName() == name {
			version = o.GetResourceVersion()
		}
	}
	return version
}

func TestPositionsFollowObjectsAndBookmarks(t *testing.T) {
	for name, prepare := range map[string]func(*apitest.Server){
		"streamed": func(*apitest.Server) {},
		"listed":   (*apitest.Server).DisableStreamedLists,
	} {
		inBubble(t, name, func(t *testing.T) {
			s := filled()
			prepare(s)
			r := run(t, s)
			r.now()
			list := r.newest("kubernetes") // the last object that was created
			for _, kind := range []string{"Service", "EndpointSlice", "ServiceCIDR", "Node"} {
				if p := r.positions()[kind]; p.ResourceVersion != list || p.Err != nil || !p.FailingSince.IsZero() {
					t.Errorf("after the lists at %s, %s is at %+v", list, kind, p)
				}
			}
			r.Put(slice("web-0", model.IPv6, 9))
			r.now()
			if p := r.positions(); p["EndpointSlice"].ResourceVersion != r.newest("web-0-ipv6") || p["Service"].ResourceVersion != list {
				t.Errorf("after a change to %s of a slice, the positions are %+v", r.newest("web-0-ipv6"), p)
			}
			bookmark := r.SendBookmarks()
			synctest.Wait()
			for kind, p := range r.positions() {
				if p.ResourceVersion != bookmark {
					t.Errorf("after a bookmark at %s, %s is at %s", bookmark, kind, p.ResourceVersion)
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
		if p := r.positions()["Service"]; p.ResourceVersion != r.newest("more") || p.Err != nil || !p.FailingSince.IsZero() {
			t.Errorf("after the outage the position is %+v", p)
		}
	})
}

func TestSourceHasNoPositionsBeforeItRuns(t *testing.T) {
	if p := cluster.NewSource(cluster.Config{Client: clientOf(apitest.New())}, nil).Positions(); p != nil {
		t.Errorf("there are %v", p)
	}
}
