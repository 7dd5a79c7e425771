package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	stdsync "sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/neighbour"
)

// abuse is a cluster of one node with two tenants. The honest one, whose namespace is
// the scene's, has a victim that is asked and a Service that moves.
type abuse struct {
	*oneNode
	writer *writer
	victim traffic.Target
	mover  *mover
	rows   []figures
}

// newAbuse makes everything but the proxy.
func newAbuse(t *testing.T) *abuse {
	t.Helper()
	clustertest.Program(t)
	a := &abuse{oneNode: prepareOneNode(t, clustertest.Alone, 3)}
	client := a.clients[0]
	a.clients = []*traffic.Client{client, a.clients[2]} // a pod, and the host outside
	a.victim = a.handmade(t, "victim", a.Lab.Pods[0])
	a.writer = &writer{client: a.Client, evil: a.Namespace(t), node: a.NodeName(a.Lab.Node)}
	var err error
	a.mover, err = newMover(clustertest.Context(t), a.ns, client, a.Lab.Pods[1], a.Lab.Pods[2])
	clustertest.Must(t, err)
	return a
}

// How long a phase may take before the attack is given up, and how much memory the
// proxy may have before it is killed: the machine has other tests to run. After a phase
// in which others had to wait for too long, the next one does not begin.
const (
	phasePatience = 45 * time.Second
	maxMemory     = 3 << 30
)

// run makes an attack on a proxy of its own.
func (a *abuse) run(t *testing.T, k *attack) {
	r := a.begin(t, k)
	defer r.end()
	for _, phase := range []struct {
		name string
		do   func(context.Context) (writes, written int, err error)
	}{
		{"create", func(ctx context.Context) (int, int, error) { return a.writer.createAll(ctx, k.create()) }},
		{"change", func(ctx context.Context) (int, int, error) { return a.writer.updateAll(ctx, k.changes()) }},
		{"delete", func(ctx context.Context) (int, int, error) { return a.writer.deleteAll(ctx, k.create()) }},
	} {
		if !r.phase(phase.name, phase.do) {
			return
		}
	}
	r.nothingLeft()
	r.over = true
}

// round is an attack under way.
type round struct {
	*abuse
	t         *testing.T
	attack    *attack
	proxy     *clustertest.Proxy
	neighbour *neighbour.Neighbour
	crowd     *traffic.Crowd
	answers   *longest
	guard     func()
	before    state
	// broken tells that the proxy does not follow any more, and over that all phases
	// were done.
	broken, over bool
}

// longest is the longest of several durations.
type longest struct {
	mu stdsync.Mutex
	d  time.Duration
}

func (l *longest) note(d time.Duration) { l.mu.Lock(); defer l.mu.Unlock(); l.d = max(l.d, d) }

func (l *longest) take() (d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, l.d = l.d, 0
	return d
}

// begin starts the proxy, its neighbour and the honest tenant.
func (a *abuse) begin(t *testing.T, k *attack) *round {
	t.Helper()
	r := &round{abuse: a, t: t, attack: k, answers: &longest{}, proxy: a.Proxy(t, a.Lab.Node, "--profiling")}
	a.mover.start()
	var err error
	r.neighbour, err = neighbour.Start(a.Lab.Node.Host)
	clustertest.Must(t, err)
	r.crowd = traffic.Start(a.clients...)
	victim := a.victim
	victim.Check = func(answer lab.Answer, _ time.Time) error { r.answers.note(answer.Took); return nil }
	clustertest.Must(t, r.crowd.Add(victim).Await(clustertest.Context(t)))
	clustertest.Must(t, a.mover.settle(clustertest.Context(t)))
	r.guard = guard(r.proxy)
	r.before, err = r.state()
	clustertest.Must(t, err)
	return r
}

// guard kills a proxy that takes too much memory, until it is called.
func guard(p *clustertest.Proxy) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done stdsync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if c, err := p.Cost(); err != nil || c.RSS > maxMemory {
				p.Kill()
				return
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

// end stops all that begin started, and removes what the attack left.
func (r *round) end() {
	r.guard()
	if err := r.mover.end(); err != nil && !r.broken {
		r.t.Error(err)
	}
	asked, err := r.crowd.Stop()
	if err != nil {
		r.t.Errorf("the victim: %v", err)
	}
	if asked == 0 {
		r.t.Error("the victim was not asked")
	}
	if err := r.neighbour.Stop(); err != nil {
		r.t.Error(err)
	}
	r.proxy.Kill()
	if !r.over {
		r.clean(r.t, r.attack.create())
	}
}

// phase does a part of the attack, waits until the proxy has followed, and checks
// what that took. It reports whether the attack can go on.
func (r *round) phase(name string, do func(context.Context) (writes, written int, err error)) bool {
	t := r.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), phasePatience)
	defer cancel()
	go func() {
		select {
		case <-r.proxy.Done():
			cancel() // nothing will be followed any more
		case <-ctx.Done():
		}
	}()
	clustertest.Must(t, r.forgetPeak())
	r.answers.take()
	r.mover.take()
	r.neighbour.Take()
	from, err := r.proxy.Cost()
	clustertest.Must(t, err)
	lines, events := r.proxy.Log.Len(), r.events()
	start := time.Now()
	f := figures{attack: r.attack.name, phase: name}
	if f.writes, f.written, err = do(ctx); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if err := r.mover.settle(ctx); err != nil {
		t.Errorf("%s: the proxy did not follow within %s: %v", name, time.Since(start).Round(time.Second), err)
		r.broken = true
	}
	if !r.broken {
		r.neighbour.Turn()
	}
	f.took = time.Since(start)
	f.answer, f.follow, f.lock = r.answers.take(), r.mover.take(), r.neighbour.Take()
	f.lines, f.bytes = written(r.proxy.Log.Lines(lines))
	if to, err := r.proxy.Cost(); err != nil {
		t.Errorf("%s: the proxy is gone; one that has more than %d MB is killed: %v", name, maxMemory>>20, err)
		f.rss, r.broken = maxMemory, true
	} else {
		f.cpu, f.rss = to.CPU-from.CPU, int64(to.PeakRSS)-int64(r.before.rss)
	}
	if !r.broken {
		now, err := r.state()
		clustertest.Must(t, err)
		f.heap, f.elements, f.objects = int64(now.heap-r.before.heap), now.elements, now.objects
		f.events = r.events() - events
	}
	r.broken = r.broken || f.follow > maxFollow || f.lock > maxLock
	r.rows = append(r.rows, f)
	t.Logf("figures:\n%s", table([]figures{f}))
	f.check(t, r.attack.budgets)
	return !r.broken
}

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
	if err := traffic.Await(ctx, func() (err error) {
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
