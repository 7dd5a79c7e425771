package takeover

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-vmap/model"
)

func TestSampleIsOfManyNamespacesAndTheAPIServer(t *testing.T) {
	var all []target
	add := func(namespace, name string, n int) {
		for range n {
			service := model.ServicePortName{ServiceName: model.ServiceName{Namespace: namespace, Name: name}}
			all = append(all, target{clusterIP(len(all)), service})
		}
	}
	add("large", "web", 200)
	add("default", "kubernetes", 2)
	for n := range 9 {
		add(fmt.Sprint("small-", n), "web", 1)
	}
	count := map[string]int{}
	for _, s := range choose(all) {
		count[s.service.Namespace]++
	}
	if len(count) != 11 || count["default"] != 2 || count["large"] != sampleSize-11 {
		t.Errorf("sample by namespace: %v", count)
	}
}

// TestSampleUsesEndpointsOfTheNodeWithLocalPolicy has endpoints of a ClusterIP on other nodes, too.
func TestSampleUsesEndpointsOfTheNodeWithLocalPolicy(t *testing.T) {
	f := newFake(t, "default")
	i := &f.snapshot.Installed[0]
	i.Local = []netip.AddrPort{endpoint(9)}
	for policy, want := range map[model.TrafficPolicy]netip.AddrPort{model.PolicyCluster: endpoint(1), model.PolicyLocal: endpoint(9)} {
		i.Policy = policy
		if got := endpoints(i); !slices.Equal(got, []netip.AddrPort{want}) {
			t.Errorf("policy %v: endpoints %v, want %s", policy, got, want)
		}
	}
}

// TestCheckThatIsCutShortFindsNothing stops the process during a check.
func TestCheckThatIsCutShortFindsNothing(t *testing.T) {
	f := newFake(t, "default")
	f.refusing[clusterIP(1)] = true
	to := f.takeover(time.Minute)
	to.sample = installedTargets(f.snapshot.Installed)
	ctx, cancel := context.WithCancel(t.Context())
	if got := to.failing(ctx, to.sampleEndpoints(f.snapshot.Installed)); len(got) != 1 {
		t.Errorf("before, failing are %v", got)
	}
	cancel()
	if got := to.failing(ctx, to.sampleEndpoints(f.snapshot.Installed)); len(got) > 0 {
		t.Errorf("failing are %v", got)
	}
}
