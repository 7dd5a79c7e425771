package slowstart

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// A rig is a follower of a model, in which each commit is immediate.
type rig struct {
	*testing.T
	follower *SlowStart
	services *model.ServiceMap
	overlays chan []model.Overlay
	began    time.Time
	changes  []model.Changes // since the last check
}

const (
	lasts = 80 * time.Second
	name  = "web"
)

func run(t *testing.T, test func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		overlays := make(chan []model.Overlay)
		r := &rig{
			T: t, follower: New(overlays, nil), overlays: overlays, began: time.Now(),
			services: model.NewServiceMap(model.Options{}, model.Node{Name: "node-1"}),
		}
		go func() {
			if err := r.follower.Run(t.Context()); err != nil {
				t.Errorf("Run: %v", err)
			}
		}()
		test(r)
	})
}

func addr(f model.Family, n int) netip.Addr {
	if f == model.IPv4 {
		return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
	}
	return netip.AddrFrom16([16]byte{0: 0xfd, 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)})
}

// serve gives a Service, whose number chooses its address, these endpoints.
func (r *rig) serve(number int, endpoints ...int) {
	s := model.Service{
		Name: model.ServiceName{Namespace: "shop", Name: fmt.Sprint(name, number)}, SlowStart: lasts,
		ClusterIPs: []netip.Addr{addr(model.IPv4, number), addr(model.IPv6, number)},
		Ports:      []model.ServicePort{{Protocol: model.UDP, Port: 80}},
	}
	r.services.SetService(s)
	for _, f := range model.Families {
		slice := model.EndpointSlice{
			Name:    model.EndpointSliceName{Namespace: "shop", Name: fmt.Sprint(name, number, f)},
			Service: s.Name, Family: f, Ports: []model.EndpointPort{{Protocol: model.UDP, Port: 80}},
		}
		for _, n := range endpoints {
			slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: addr(f, 1<<20+n), Ready: true, Serving: true})
		}
		r.services.SetSlice(slice)
	}
}

func (r *rig) commit() {
	c := r.services.Changes()
	r.changes = append(r.changes, c)
	r.follower.Follow(sync.Committed{Full: len(r.changes) == 1, Set: c.Set, Removed: c.Removed})
}

// wait lets a time pass and commits what the follower sends.
func (r *rig) wait(d time.Duration) {
	end := time.After(d)
	for {
		select {
		case <-end:
			synctest.Wait()
			return
		case all := <-r.overlays:
			r.services.SetOverlays(all)
			r.commit()
		}
	}
}

// check checks the steps of the endpoints of a Service in both families.
func (r *rig) check(number int, want ...uint8) {
	r.Helper()
	for _, f := range r.services.FrontendsOf(model.ServiceName{Namespace: "shop", Name: fmt.Sprint(name, number)}) {
		if !slices.Equal(f.Pool.ClusterSteps.Eighths, want) {
			r.Errorf("after %s, %s: steps %v, want %v", time.Since(r.began), f.Match, f.Pool.ClusterSteps.Eighths, want)
		}
	}
}

// TestWeightsGrow has an endpoint join, another one during its slow start, and one that leaves and
// returns.
func TestWeightsGrow(t *testing.T) {
	const third = lasts/3 + 2*time.Second
	run(t, func(r *rig) {
		r.serve(1, 1, 2)
		r.commit()
		r.wait(lasts)
		r.check(1)
		r.serve(1, 1, 2, 3)
		r.commit()
		r.check(1, 8, 8, 1)
		r.wait(lasts/3 - time.Second)
		r.check(1, 8, 8, 1)
		r.wait(third - lasts/3 + time.Second)
		r.check(1, 8, 8, 2)
		r.serve(1, 1, 2, 3, 4)
		r.commit()
		r.check(1, 8, 8, 2, 1)
		r.wait(third)
		r.check(1, 8, 8, 4, 2)
		r.serve(1, 1, 2, 4)
		r.commit()
		r.serve(1, 1, 2, 3, 4)
		r.commit()
		r.check(1, 8, 8, 1, 2)
		r.wait(third)
		r.check(1, 8, 8, 2, 4)
		r.wait(third)
		r.check(1, 8, 8, 4, 8)
		r.wait(third)
		r.check(1, 8, 8, 8, 8)
		r.wait(lasts - third)
		r.check(1, 8, 8, 8, 8)
		r.changes = r.changes[:1]
		r.wait(2 * third)
		r.check(1)
		if len(r.changes) != 2 {
			t.Errorf("%d commits at the end, want 1", len(r.changes)-1)
		}
		r.wait(time.Hour)
		if len(r.changes) != 2 || len(r.follower.pools) > 0 {
			t.Errorf("%d more commits, %d pools", len(r.changes)-2, len(r.follower.pools))
		}
	})
}

// TestOldStepIsCorrected has a commit that was made before the loop received a step.
func TestOldStepIsCorrected(t *testing.T) {
	run(t, func(r *rig) {
		r.serve(1, 1)
		r.commit()
		r.serve(1, 1, 2)
		r.commit()
		old := r.services.Frontends()
		r.wait(lasts/3 + 2*time.Second)
		r.check(1, 8, 2)
		key := old[0].Pool.Key
		r.services.SetOverlays([]model.Overlay{model.SlowStart{
			Key: key, Cluster: old[0].Pool.List(false),
		}})
		r.commit()
		r.wait(2 * time.Second)
		r.check(1, 8, 2)
	})
}

// TestRemovedPoolIsForgotten removes a Service while an endpoint starts. When it returns, it is new.
func TestRemovedPoolIsForgotten(t *testing.T) {
	run(t, func(r *rig) {
		r.serve(1, 1, 2)
		r.commit()
		r.wait(lasts)
		r.check(1)
		r.serve(1, 1, 2, 3)
		r.commit()
		r.services.DeleteService(model.ServiceName{Namespace: "shop", Name: name + "1"})
		r.commit()
		r.wait(lasts)
		if len(r.changes) != 3 || len(r.follower.pools) > 0 {
			t.Errorf("%d commits, want 3; %d pools", len(r.changes), len(r.follower.pools))
		}
		r.serve(1, 1, 2, 3)
		r.commit()
		r.check(1)
	})
}

// TestManyEndpointsTakeFewCommits has endpoints of many Services join, some in each second.
func TestManyEndpointsTakeFewCommits(t *testing.T) {
	const services = 600
	run(t, func(r *rig) {
		for n := range services {
			r.serve(n, 1)
		}
		r.commit()
		for second := range 30 {
			for n := range services / 30 {
				r.serve(second*services/30+n, 1, 2)
			}
			r.commit()
			r.wait(time.Second)
		}
		r.changes = r.changes[:1]
		r.wait(3 * lasts)
		if n := len(r.changes) - 1; n > int(3*lasts/time.Second) {
			t.Errorf("%d commits within %s", n, 3*lasts)
		}
		for n := range services {
			r.check(n)
		}
	})
}
