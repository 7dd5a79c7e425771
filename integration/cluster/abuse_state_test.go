package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/eventually"
)

// written counts lines and their bytes.
func written(lines []string) (n, bytes int) {
	for _, line := range lines {
		bytes += len(line) + 1
	}
	return len(lines), bytes
}

// forgetPeak has the kernel begin anew with the proxy's peak of memory.
func (r *round) forgetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", r.proxy.PID()), []byte("5"), 0)
}

// events is how many Events the proxy has made.
func (r *round) events() (n int) {
	list, err := r.Client.EventsV1().Events(metav1.NamespaceAll).List(clustertest.Context(r.t), metav1.ListOptions{})
	clustertest.Must(r.t, err)
	for i := range list.Items {
		if list.Items[i].ReportingController == "kube-vmap" {
			n++
		}
	}
	return n
}

// state is what the proxy has, and what the kernel has of it.
type state struct {
	consumption
	rss               uint64
	elements, objects int
}

// state looks while nothing moves.
func (r *round) state() (s state, err error) {
	r.mover.turn.Lock()
	defer r.mover.turn.Unlock()
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
	s.consumption = consumed(r.t, r.proxy)
	cost, err := r.proxy.Cost()
	s.rss = cost.RSS
	return s, err
}

// nothingLeft waits until everything is about as it was before the attack.
func (r *round) nothingLeft() {
	t := r.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), leftPatience)
	defer cancel()
	var s state
	if err := eventually.Try(ctx, func() (err error) {
		if s, err = r.state(); err != nil {
			return err
		}
		switch b := r.before; {
		case s.elements != b.elements || s.objects != b.objects:
			return fmt.Errorf("%d elements in %d chains and sets, %d in %d before", s.elements, s.objects, b.elements, b.objects)
		case s.goroutines > b.goroutines+maxGoroutinesLeft || s.heap > b.heap+maxHeapLeft:
			return fmt.Errorf("%s, before %s", s.consumption, b.consumption)
		case s.rss > b.rss+maxRSSLeft:
			return fmt.Errorf("%d MB of resident memory, before %d", s.rss>>20, b.rss>>20)
		}
		return nil
	}); err != nil {
		t.Errorf("after the attack: %v", err)
	}
	r.neighbour.Turn()
	if longest := r.neighbour.Take(); longest > maxLock {
		t.Errorf("after the attack: %s for a transaction of another program, budget %s", longest, maxLock)
	}
	t.Logf("before: %s, %d MB; after: %s, %d MB", r.before.consumption, r.before.rss>>20, s.consumption, s.rss>>20)
}

// leftPatience is for connections to end and for memory to be given back.
const leftPatience = 10 * time.Second
