package soak

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

var duration = flag.Duration("soak", 10*time.Second, "how long the test goes on")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(daemon.Main(m))
}

const (
	// stay is how many Services stay as they are, change how many change.
	stay, change = 50, 3
	// most is how many ports a Service has at most.
	most = 3
)

func TestChangesToOneServiceDisturbNoOther(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 6, RemotePods: 3})
	daemon.RouteServices(t, l, l.Node)
	var servers []*lab.Host
	for _, pod := range append(l.Pods[:6:6], l.RemotePods...) {
		for n := range uint16(most) {
			if err := pod.ServeAll(daemon.TargetPort + n); err != nil {
				t.Fatal(err)
			}
		}
		servers = append(servers, pod.Host)
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	f := daemon.NewFolder(t, l)
	still := stillServices(servers)
	f.Put("still", still...)
	f.Put("changing", changing(random, servers)...)
	d := daemon.Start(t, l.Node, f)

	users := newUsers(t, l, still)
	ctx, stop := context.WithTimeout(t.Context(), *duration)
	defer stop()
	var group errgroup.Group
	for _, u := range users {
		group.Go(func() error { u.work(ctx); return nil })
	}
	changes := 0
	for ctx.Err() == nil {
		d.After(func() { f.Put("changing", changing(random, servers)...) })
		changes += change
	}
	_ = group.Wait() // users note what goes wrong
	var all record
	for _, u := range users {
		all.add(u.record)
	}
	t.Logf("seed %d: %d changes, %.0f a second; %s", seed, changes, float64(changes)/duration.Seconds(), all)
	for _, failure := range all.failures[:min(len(all.failures), 20)] {
		t.Error(failure)
	}
	if perSecond := float64(changes) / duration.Seconds(); perSecond < 10 {
		t.Errorf("only %.0f changes a second: the machine is too busy for this to say anything", perSecond)
	}
}

// schedulers are the values of the annotation.
var schedulers = []string{"", "random", "rr", "sh", "mh"}

// sources are source ranges of both families; the first let in all clients here.
var sources = [][]string{
	{"10.0.0.0/8", "192.0.2.0/25", "192.0.2.128/25", "fd00:10::/32", "2001:db8:2::/48"},
	{"192.0.2.0/24", "2001:db8:2::/64"},
	{"203.0.113.0/24", "198.18.0.0/15", "2001:db8:ffff::/48"},
}

// stillServices are Services of all sorts that are answered to all clients.
func stillServices(servers []*lab.Host) []daemon.Service {
	sorts := [][]model.Kind{nil, {model.KindNodePort}, {model.KindLoadBalancerIP}, {model.KindExternalIP}, daemon.Kinds}
	var all []daemon.Service
	for n := range stay {
		s := daemon.Service{
			Name: "still-" + string(rune('a'+n%26)) + string(rune('a'+n/26)), Number: n + 1,
			Kinds: sorts[n%len(sorts)],
			// One on the node, so that local policies leave somebody, and two others.
			Endpoints: []*lab.Host{servers[n%6], servers[6+n%3], servers[(n/6+n+1)%6]},
			Scheduler: schedulers[n/5%len(schedulers)],
		}
		if s.Has(model.KindNodePort) || s.Has(model.KindLoadBalancerIP) || s.Has(model.KindExternalIP) {
			s.LocalOutside = n%3 == 0
		}
		s.LocalInside = n%7 == 0
		if n%4 == 0 {
			s.Affinity = time.Hour
		}
		if s.Has(model.KindLoadBalancerIP) && n%2 == 0 {
			s.Sources = sources[0]
		}
		all = append(all, s)
	}
	return all
}

// changing are the Services that change, each as chance will have it; now and
// then it is gone.
func changing(random *rand.Rand, servers []*lab.Host) []daemon.Service {
	var all []daemon.Service
	for n := range change {
		if random.IntN(10) == 0 {
			continue
		}
		s := daemon.Service{
			Name: "changing-" + string(rune('a'+n)), Number: stay + 1 + n,
			Ports:     1 + random.IntN(most),
			Times:     1 + random.IntN(2),
			Scheduler: schedulers[random.IntN(len(schedulers))],
			Affinity:  []time.Duration{0, 0, time.Second, time.Minute, time.Hour}[random.IntN(5)],
		}
		for _, k := range daemon.Kinds {
			if random.IntN(2) == 0 {
				s.Kinds = append(s.Kinds, k)
			}
		}
		for _, i := range random.Perm(len(servers))[:random.IntN(len(servers)+1)] {
			s.Endpoints = append(s.Endpoints, servers[i])
		}
		s.LocalInside = random.IntN(3) == 0
		s.LocalOutside = len(s.Kinds) > 0 && random.IntN(2) == 0
		if s.Has(model.KindLoadBalancerIP) && random.IntN(2) == 0 {
			s.Sources = sources[random.IntN(len(sources))]
		}
		all = append(all, s)
	}
	return all
}
