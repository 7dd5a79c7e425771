package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
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

// BenchmarkRestart measures a start that finds everything in place, as a new process does.
func BenchmarkRestart(b *testing.B) {
	labtest.Require(b)
	sticky := clusterIP
	sticky.name, sticky.sticky = "sticky", true
	for _, of := range []struct {
		kind
		most time.Duration
	}{{clusterIP, time.Second}, {sticky, 0}} {
		n, _ := newNode(b, newCluster(of.kind, standard))
		want := newCluster(of.kind, standard).all()
		var reads, totals report.Times
		for range 5 {
			runtime.GC()
			start := time.Now()
			k := n.open(b)
			have, err := k.Read()
			must(b, err)
			reads.Add(time.Since(start))
			if _, changes := nft.Adopt(config, have, want); len(changes) > 0 {
				b.Errorf("a restart would write %d changes", len(changes))
			}
			totals.Add(time.Since(start))
			must(b, k.Close())
		}
		report.Line(b, n.String(),
			report.Time("ms", totals.Median(), of.most), report.Time("ms-read", reads.Median(), 0))
	}
}

// BenchmarkMemory measures by how much the kernel's memory grows with rules, several times,
// because other programs disturb it.
func BenchmarkMemory(b *testing.B) {
	labtest.Require(b)
	c := newCluster(clusterIP, standard)
	_, batch := nft.Adopt(config, nft.Tables{}, c.all())
	built := prepare(b, batch)
	var grown report.Sample[int]
	for range 7 {
		s := newSandbox(b)
		before := settledMemory(b)
		s.send(b, built...)
		grown.Add(settledMemory(b) - before)
		s.close()
	}
	perEndpoint := grown.Median() / (c.size.services*c.endpoints + c.endpoints + 1)
	report.Line(b, c.String(), report.Number("B-per-endpoint", perEndpoint, 157))
}

// settledMemory waits until the kernel has freed memory in the background, as far as
// other programs allow, and returns how many bytes it uses.
func settledMemory(b *testing.B) int {
	b.Helper()
	const rest = 64 << 10
	last := kernelMemory(b)
	tick := time.Tick(50 * time.Millisecond)
	for range 40 {
		<-tick
		now := kernelMemory(b)
		if max(now-last, last-now) < rest {
			break
		}
		last = now
	}
	return last
}

// kernelMemory returns the bytes of the kinds of kernel memory that netfilter uses.
func kernelMemory(b *testing.B) (sum int) {
	b.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	must(b, err)
	for line := range strings.Lines(string(text)) {
		var kilobytes int
		switch name, rest, _ := strings.Cut(line, ":"); name {
		case "SUnreclaim", "VmallocUsed", "Percpu":
			_, err := fmt.Sscan(rest, &kilobytes)
			must(b, err)
		}
		sum += kilobytes << 10
	}
	return sum
}
