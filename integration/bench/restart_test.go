package bench

import (
	"runtime"
	"testing"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/nft"
)

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
