package proxy

import (
	"maps"
	"slices"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
)

// sample is how many connections are asked for to see how they spread.
const sample = 1500

func TestConnectionsSpreadEvenly(t *testing.T) {
	l := newLab(t)
	f := daemon.EmptyFolder(t, l)
	services := []daemon.Service{
		{Name: "two", Number: 1, EndpointSpec: "pod-1 pod-2"},
		{Name: "three", Number: 2, EndpointSpec: "pod-1 pod-2 remote-1"},
		{Name: "doubled", Number: 3, EndpointSpec: "pod-1 pod-2 | pod-1"},
	}
	hosts := [][]string{{"pod-1", "pod-2"}, {"pod-1", "pod-2", "remote-1"}, {"pod-1", "pod-2"}}
	f.Put("services", services...)
	startAndSettle(t, watch(t, l.Node.Host), l, f, daemon.PodRanges)
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		for i, s := range services {
			tally, err := l.Pods[2].Burst(lab.Burst{
				Protocol: w.Protocol, To: s.ClusterAddrPort(w.Family), Count: sample, Workers: 2, Timeout: answer,
			})
			if err != nil {
				t.Fatal(err)
			}
			evenly(t, s.Name, tally, hosts[i])
		}
	})
}

// evenly checks that all questions were answered, by these hosts in shares that
// differ no more than chance makes likely: a fair proxy fails once in a million
// times.
func evenly(t *testing.T, name string, tally lab.Tally, hosts []string) {
	t.Helper()
	if got := slices.Sorted(maps.Keys(tally.Answered)); !slices.Equal(got, hosts) {
		t.Fatalf("%s: %s, want answers by %v", name, tally, hosts)
	}
	share, chi, answered := float64(sample)/float64(len(hosts)), 0.0, 0
	for _, n := range tally.Answered {
		answered += n
		chi += (float64(n) - share) * (float64(n) - share) / share
	}
	if answered != sample {
		t.Errorf("%s: %s, want %d answers", name, tally, sample)
	}
	limit := map[int]float64{2: 23.9, 3: 27.6}[len(hosts)] // chi-square at 1e-6
	if chi > limit {
		t.Errorf("%s: %s: chi-square %.1f, want at most %.1f", name, tally, chi, limit)
	}
}
