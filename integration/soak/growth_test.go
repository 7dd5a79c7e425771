package soak

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// Maps that outgrow their size are replaced in one transaction, under packets that
// look for something in them.
func TestMapsGrowUnderTrafficWithoutLoss(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 6, RemotePods: 3})
	daemon.RouteServices(t, l, l.Node)
	var servers []*lab.Host
	for _, pod := range append(l.Pods[:6:6], l.RemotePods...) {
		if err := pod.ServeAll(daemon.TargetPort); err != nil {
			t.Fatal(err)
		}
		servers = append(servers, pod.Host)
	}
	f := daemon.NewFolder(t, l)
	still := stillServices(servers)
	f.Put("still", still...)
	d := daemon.Start(t, l.Node, f)

	users := newUsers(t, l, still)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var group errgroup.Group
	for _, u := range users {
		group.Go(func() error { u.work(ctx); return nil })
	}
	// 50 Services of 3 ports stand: 150 of 384 places. This fills the maps to twice
	// their first size, to four times, empties them, and fills them at once.
	for _, n := range []int{100, 300, 600, 0, 600} {
		d.After(func() { f.Put("more", more(n, servers)...) })
	}
	stop()
	_ = group.Wait() // users note what goes wrong
	var all record
	for _, u := range users {
		all.add(u.record)
	}
	t.Log(all)
	for _, failure := range all.failures[:min(len(all.failures), 20)] {
		t.Error(failure)
	}
	if all.asked < 100 {
		t.Error("too few questions to say anything")
	}
}

// more are Services with addresses of all kinds but node ports, of which there are
// not enough.
func more(n int, servers []*lab.Host) []daemon.Service {
	var all []daemon.Service
	for i := range n {
		all = append(all, daemon.Service{
			Name: fmt.Sprintf("more-%d", i), Number: stay + 1 + i,
			Kinds:     []model.Kind{model.KindExternalIP, model.KindLoadBalancerIP},
			Endpoints: []*lab.Host{servers[i%len(servers)], servers[(i+1)%len(servers)]},
		})
	}
	return all
}
