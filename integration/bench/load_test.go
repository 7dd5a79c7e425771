package bench

import (
	"runtime"
	"testing"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/nft"
)

// loadTimes are those of a first load; total is from Adopt to the commit.
type loadTimes struct {
	want                 nft.Change
	model                time.Duration
	kernel, total, floor report.Times
}

// BenchmarkLoad measures the first load, from the cluster's objects to the commit, of all
// clusters in turns.
func BenchmarkLoad(b *testing.B) {
	labtest.Require(b)
	all := clusters()
	times := make([]loadTimes, len(all))
	for i, c := range all {
		start := time.Now()
		times[i].want = c.all()
		times[i].model = time.Since(start)
	}
	rounds := 7
	if testing.Short() {
		rounds = 3
	}
	for range rounds {
		for i := range times {
			times[i].round(b)
		}
	}
	for i, c := range all {
		t := &times[i]
		kernel, total, floor := t.kernel.Median(), t.total.Median(), t.floor.Median()
		var mostTime time.Duration
		var mostFloors float64
		if c.large() {
			mostTime, mostFloors = time.Second, 2
		}
		figures := []report.Figure{
			report.Time("ms-from-objects", t.model+total, mostTime), report.Time("ms-kernel", kernel, 0),
			report.Ratio("x-floor", kernel, floor, 0),
			// The machine's other load is no part of the promise.
			report.Ratio("x-floor-undisturbed", t.kernel.At(0), t.floor.At(0), mostFloors),
		}
		if c.sticky {
			figures = append(figures, report.Ratio("x-not-sticky", total, times[i-1].total.Median(), 2.5))
		}
		report.Line(b, c.String(), figures...)
	}
}

// round loads once through nft.Adopt and once with prepared bytes, each into a namespace
// of its own.
func (t *loadTimes) round(b *testing.B) {
	b.Helper()
	runtime.GC()
	s := newSandbox(b)
	defer s.close()
	start := time.Now()
	_, batch := nft.Adopt(config, nft.Tables{}, t.want)
	applied, err := s.kernel.Apply(batch)
	t.total.Add(time.Since(start))
	must(b, err)
	t.kernel.Add(applied.Kernel)

	floor := newSandbox(b)
	defer floor.close()
	prepared := prepare(b, batch)
	runtime.GC()
	t.floor.Add(floor.send(b, prepared...))
}
