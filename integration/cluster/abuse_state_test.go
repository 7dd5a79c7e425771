package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/eventually"
)

func lengths(lines []string) (n, bytes int) {
	for _, line := range lines {
		bytes += len(line) + 1
	}
	return len(lines), bytes
}

// forgetPeak resets the peak of the proxy's memory (proc(5), clear_refs).
func (r *attackRun) forgetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.proxy.PID()), []byte("5"), 0)
}

// events returns how many Events the proxy has created.
func (r *attackRun) events() (n int) {
	list, err := r.Client.EventsV1().Events(metav1.NamespaceAll).List(clustertest.Context(r.t), metav1.ListOptions{})
	clustertest.Must(r.t, err)
	for i := range list.Items {
		if list.Items[i].ReportingController == "kube-vmap" {
			n++
		}
	}
	return n
}

func collect(t *testing.T, p *clustertest.Proxy) {
	t.Helper()
	for range 2 { // objects with a finalizer are freed by the second collection
		status, _, err := p.Get("http://127.0.0.1:10249/debug/pprof/heap?gc=1")
		clustertest.Must(t, err)
		if status != 200 {
			t.Fatalf("no heap profile: %d", status)
		}
	}
}

func metric(t *testing.T, p *clustertest.Proxy, name string) float64 {
	t.Helper()
	v, err := p.Metric(name)
	clustertest.Must(t, err)
	return v
}

// allResponsive checks that passive health checks found no unresponsive endpoint.
func allResponsive(t *testing.T, p *clustertest.Proxy) {
	t.Helper()
	if changes := metric(t, p, "kubevmap_passive_health_changes_total"); changes > 0 {
		t.Errorf("%s: %v times an endpoint became unresponsive or responsive", p.Truth.Host, changes)
	}
}

// state is the memory of the proxy after garbage collection, and the objects in the kernel.
type state struct {
	goroutines, heap  float64
	rss               uint64
	elements, objects int
}

func (s state) String() string {
	return fmt.Sprintf("%d elements, %d chains and sets, %.0f goroutines, %.1f MiB of live memory, %d MB of resident memory",
		s.elements, s.objects, s.goroutines, s.heap/(1<<20), s.rss>>20)
}

// state returns the state, while no Service is changed.
func (r *attackRun) state() (s state, err error) {
	tables, err := truth.Read(r.Lab.Node.Host)
	if err != nil {
		return s, err
	}
	for _, table := range tables {
		if table == nil {
			return s, errors.New("a table is missing")
		}
		s.objects += len(table.Chains) + len(table.Sets)
		for _, set := range table.Sets {
			s.elements += len(set.Elements)
		}
	}
	collect(r.t, r.proxy)
	s.goroutines, s.heap = metric(r.t, r.proxy, "go_goroutines"), metric(r.t, r.proxy, "go_memstats_heap_alloc_bytes")
	cost, err := r.proxy.Cost()
	s.rss = cost.RSS
	return s, err
}

// settledState returns the state, after a change that still waits for its turn, which needs memory for
// its batch.
func (r *attackRun) settledState() (s state) {
	ctx, cancel := context.WithTimeout(r.t.Context(), phaseTimeout)
	defer cancel()
	err := eventually.Try(ctx, func() (err error) {
		if s, err = r.state(); err == nil && s.heap-r.before.heap > maxHeap {
			err = fmt.Errorf("%.1f MiB of live memory", s.heap/(1<<20))
		}
		return err
	})
	clustertest.Must(r.t, err)
	return s
}

// checkNothingLeft waits until state and memory are about as before the attack.
func (r *attackRun) checkNothingLeft() {
	t := r.t
	t.Helper()
	var s state
	if err := eventually.Try(clustertest.Context(t), func() (err error) {
		if s, err = r.state(); err != nil {
			return err
		}
		if b := r.before; s.elements != b.elements || s.objects != b.objects || s.goroutines > b.goroutines+maxGoroutinesLeft ||
			s.heap > b.heap+maxHeapLeft || s.rss > b.rss+maxRSSLeft {
			return fmt.Errorf("%s, before %s", s, b)
		}
		return nil
	}); err != nil {
		t.Errorf("after the attack: %v", err)
	}
	r.neighbour.turn()
	if longest := r.neighbour.take(); longest > maxLock && !testing.Short() {
		t.Errorf("after the attack: %s for a transaction of another program, budget %s", longest, maxLock)
	}
	t.Logf("before: %s; after: %s", r.before, s)
}
