package cluster_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
	"kube-vmap/sync/cluster/apitest"
	"kube-vmap/sync/convert"
)

var onlySeed = flag.Uint64("seed", 0, "random history to run; 0 means fixed ones")

// TestRandomHistoriesMatchFinalState applies random changes to objects and faults to the
// server, and compares the rule set of all events with that of the final objects.
func TestRandomHistoriesMatchFinalState(t *testing.T) {
	seeds := []uint64{1, 2, 3}
	if *onlySeed != 0 {
		seeds = []uint64{*onlySeed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runHistory(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func runHistory(t *testing.T, random *rand.Rand) {
	s := filled()
	r := run(t, s)
	events := r.now()
	if random.IntN(2) == 0 {
		s.DisableStreamedLists()
	}
	for range 300 {
		step(s, random)
		if random.IntN(3) == 0 {
			r.pass(time.Duration(random.IntN(1000)) * time.Millisecond)
		}
		if random.IntN(4) == 0 {
			events = append(events, r.drain()...)
		}
	}
	s.SetDown(false)
	s.Put(node())
	for range 60 {
		r.pass(time.Second)
		events = append(events, r.drain()...)
	}
	r.stop()
	if diff := cmp.Diff(rules(t, finalEvents(s)), rules(t, events)); diff != "" {
		t.Errorf("the rules of the events differ from those of the objects; -objects +events\n%s", diff)
	}
}

// drain returns the events that are ready.
func (r *rig) drain() (events []sync.Event) {
	for {
		synctest.Wait()
		select {
		case more := <-r.bursts:
			events = append(events, more...)
		default:
			return events
		}
	}
}

// step makes one random change.
func step(s *apitest.Server, random *rand.Rand) {
	n := random.IntN(5)
	name := fmt.Sprintf("web-%d", n)
	family := model.Families[random.IntN(len(model.Families))]
	switch random.IntN(20) {
	case 0, 1, 2:
		s.Put(service(name, 10*n+random.IntN(3)))
	case 3:
		s.Delete(service(name, 0))
	case 4:
		other := service(name, n)
		other.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
		s.Put(other)
	case 5:
		part := service(name, 10*n)
		part.Spec.ExternalIPs = []string{"127.0.0.1", "203.0.113.1"}
		s.Put(part)
	case 6, 7, 8, 9, 10, 11:
		s.Put(slice(name, family, random.Perm(20)[:random.IntN(20)]...))
	case 12:
		s.Delete(slice(name, family))
	case 13:
		headless := slice(name, family, 1)
		headless.Labels[corev1.IsHeadlessService] = ""
		s.Put(headless)
	case 14:
		s.Put(serviceCIDR(name, fmt.Sprintf("10.%d.0.0/16", 96+random.IntN(3))))
	case 15:
		s.Delete(serviceCIDR(name))
	case 16:
		s.Put(withPodCIDRs(node()))
	case 17:
		s.EndWatches()
	case 18:
		s.SetDown(random.IntN(2) == 0)
	case 19:
		s.Compact()
	}
}

// finalEvents returns the server's objects, converted one by one.
func finalEvents(s *apitest.Server) []sync.Event {
	var events []sync.Event
	var ranges []netip.Prefix
	for _, o := range s.Objects() {
		switch o := o.(type) {
		case *corev1.Service:
			if converted, _ := convert.Service(o); converted != nil {
				events = append(events, sync.SetService{Service: *converted})
			}
		case *discoveryv1.EndpointSlice:
			if converted, _ := convert.Slice(o); converted != nil {
				events = append(events, sync.SetSlice{Slice: *converted})
			}
		case *corev1.Node:
			converted, _ := convert.Node(o)
			events = append(events, sync.SetNode{Node: *converted, Ineligible: convert.Ineligible(o)})
		case *networkingv1.ServiceCIDR:
			converted, _ := convert.ServiceCIDR(o)
			ranges = append(ranges, converted...)
		}
	}
	slices.SortFunc(ranges, func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) })
	return append(events, sync.SetServiceCIDRs{CIDRs: slices.Compact(ranges)})
}

// rules returns the rule set that results from events.
func rules(t *testing.T, events []sync.Event) []string {
	t.Helper()
	rules, _ := sync.Build(sync.Config{NodeName: "node-1", Rules: nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark}}, events)
	var text strings.Builder
	if err := rules.Render(&text); err != nil {
		t.Fatal(err)
	}
	return strings.Split(text.String(), "\n")
}
