package bench

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/nft"
)

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
