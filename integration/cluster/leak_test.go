package cluster_test

import (
	"fmt"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/eventually"
)

// consumption is the memory and the goroutines of a proxy after garbage collection.
type consumption struct{ goroutines, heap float64 }

func (c consumption) String() string {
	return fmt.Sprintf("%.0f goroutines, %.1f MiB", c.goroutines, c.heap/(1<<20))
}

func consumed(t *testing.T, p *clustertest.Proxy) consumption {
	t.Helper()
	for range 2 { // objects with a finalizer are freed by the second collection
		status, _, err := p.Get("http://127.0.0.1:10249/debug/pprof/heap?gc=1")
		clustertest.Must(t, err)
		if status != 200 {
			t.Fatalf("no heap profile: %d", status)
		}
	}
	return consumption{metric(t, p, "go_goroutines"), metric(t, p, "go_memstats_heap_alloc_bytes")}
}

// noLeak waits until a proxy's consumption is about as before. Connections that are still
// open need some for a while; a leak stays.
func noLeak(t *testing.T, p *clustertest.Proxy, before consumption) {
	t.Helper()
	var after consumption
	if err := eventually.Try(clustertest.Context(t), func() error {
		after = consumed(t, p)
		if after.goroutines > before.goroutines+5 || after.heap > before.heap+1<<20 {
			return fmt.Errorf("%s leaks: %s before, %s after", p.Truth.Host, before, after)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	t.Logf("%s: %s before, %s after", p.Truth.Host, before, after)
}
