package forward

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// BenchmarkWays compares the processor time of this process, which sends, routes and
// answers all packets, for one question and answer over UDP: straight to the endpoint's
// node, forwarded to it by node-1, and under Cluster policy through node-1. In turns, because
// other processes disturb it.
func BenchmarkWays(b *testing.B) {
	type way struct {
		name  string
		scene *scene
		flow  *lab.Flow
		times []float64
	}
	ways := []*way{
		{name: "straight", scene: newForwarding(b, options{})},
		{name: "forwarded", scene: newForwarding(b, options{})},
		{name: "remembered", scene: newForwarding(b, options{remember: true})},
		{name: "cluster", scene: newScene(b, false)},
	}
	for _, w := range ways {
		if w.name == "cluster" {
			w.scene.proxies[0].After(func() { w.scene.put(w.scene.lab.RemotePods...) })
		} else {
			w.scene.endpoints(w.scene.lab.RemotePods...)
		}
		if w.name == "straight" {
			w.scene.routeTo(w.scene.lab.Remote)
		}
		w.flow, _ = w.scene.connect(b, daemon.Transport{Protocol: model.UDP, Family: model.IPv4})
	}
	const questions = 1000
	for b.Loop() {
		for _, w := range ways {
			before := processorTime(b)
			for range questions {
				if a := again(b, w.flow, patience); a.Outcome != lab.Answered {
					b.Fatal(w.name, a)
				}
			}
			w.times = append(w.times, float64(processorTime(b)-before)/questions)
		}
	}
	b.ReportMetric(median(ways[0].times), ways[0].name+"-ns")
	for _, w := range ways[1:] {
		for i := range w.times {
			w.times[i] -= ways[0].times[i]
		}
		b.ReportMetric(median(w.times), w.name+"-more-ns")
	}
}

func median(times []float64) float64 { return slices.Sorted(slices.Values(times))[len(times)/2] }

// processorTime returns the nanoseconds that this process has used.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
