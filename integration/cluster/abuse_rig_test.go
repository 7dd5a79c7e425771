package cluster_test

import (
	"context"
	stdsync "sync"
	"testing"
	"time"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/neighbour"
)

// abuse is a cluster of one node with two tenants. The honest one, whose namespace is
// the scene's, has a Service that clients ask, and one that is changed all the time.
type abuse struct {
	*oneNode
	writer *writer
	victim traffic.Target
	mover  *changer
	rows   []figures
}

// newAbuse creates everything but the proxy.
func newAbuse(t *testing.T) *abuse {
	t.Helper()
	clustertest.Program(t)
	a := &abuse{oneNode: prepareOneNode(t, clustertest.Alone, 3)}
	client := a.clients[0]
	a.clients = []*traffic.Client{client, a.clients[2]} // a pod, and the host outside
	a.victim = a.manualService(t, "victim", a.Lab.Pods[0])
	a.writer = &writer{client: a.Client, evil: a.Namespace(t)}
	var err error
	a.mover, err = newChanger(clustertest.Context(t), a.ns, client, a.Lab.Pods[1], a.Lab.Pods[2])
	clustertest.Must(t, err)
	return a
}

// Limits that end an attack: for the duration of a phase, and for the proxy's memory. An
// attack also ends after a phase in which others had to wait for too long.
const (
	phaseTimeout = 3 * time.Minute
	maxMemory    = 3 << 30
)

// runAttack makes an attack on a proxy of its own.
func (a *abuse) runAttack(t *testing.T, k *attack) {
	r := &attackRun{abuse: a, t: t, attack: k, answers: &maxDuration{}}
	defer r.end()
	r.begin()
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
	r.checkNothingLeft()
	nothingSilent(t, r.proxy)
	r.over = true
}

// attackRun is a running attack.
type attackRun struct {
	*abuse
	t         *testing.T
	attack    *attack
	proxy     *clustertest.Proxy
	neighbour *neighbour.Neighbour
	crowd     *traffic.Crowd
	answers   *maxDuration
	guard     func()
	before    state
	// broken means that the proxy does not follow any more, and over that all phases are
	// completed.
	broken, over bool
}

// maxDuration is the maximum of several durations.
type maxDuration struct {
	mu stdsync.Mutex
	d  time.Duration
}

func (l *maxDuration) record(d time.Duration) { l.mu.Lock(); defer l.mu.Unlock(); l.d = max(l.d, d) }

func (l *maxDuration) take() (d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, l.d = l.d, 0
	return d
}

// begin starts the proxy, another program that uses nf_tables, and the honest tenant.
func (r *attackRun) begin() {
	t := r.t
	t.Helper()
	r.proxy = r.Proxy(t, r.Lab.Node, "--profiling")
	r.guard = guard(r.proxy)
	r.mover.start()
	var err error
	r.neighbour, err = neighbour.Start(r.Lab.Node.Host)
	clustertest.Must(t, err)
	r.crowd = traffic.Start(r.clients...)
	victim := r.victim
	victim.Check = func(answer lab.Answer, _ time.Time) error { r.answers.record(answer.Took); return nil }
	clustertest.Must(t, r.crowd.Add(victim).Await(clustertest.Context(t)))
	clustertest.Must(t, r.mover.settle(clustertest.Context(t)))
	r.before, err = r.state()
	clustertest.Must(t, err)
}

// guard kills a proxy that uses too much memory, until stop is called.
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

// end stops what begin started, and removes the attack's objects.
func (r *attackRun) end() {
	t := r.t
	if r.guard != nil {
		r.guard()
		if err := r.mover.end(); err != nil && !r.broken {
			t.Error(err)
		}
	}
	if r.crowd != nil {
		if asked, err := r.crowd.Stop(); err != nil {
			t.Errorf("the victim: %v", err)
		} else if asked == 0 {
			t.Error("the victim was not asked")
		}
	}
	if r.neighbour != nil {
		if err := r.neighbour.Stop(); err != nil {
			t.Error(err)
		}
	}
	if r.proxy != nil {
		r.proxy.Kill()
	}
	if !r.over {
		r.clean(t, r.attack.create())
	}
}

// phase runs a part of the attack, waits until the proxy has followed, and checks the
// cost. It reports whether the attack can go on.
func (r *attackRun) phase(name string, do func(context.Context) (writes, written int, err error)) bool {
	t := r.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), phaseTimeout)
	defer cancel()
	go func() {
		select {
		case <-r.proxy.Done():
			cancel() // the proxy is gone
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
	r.broken = r.broken || !testing.Short() && (f.follow > maxFollow || f.lock > maxLock)
	r.rows = append(r.rows, f)
	t.Logf("figures:\n%s", table([]figures{f}))
	f.check(t)
	return !r.broken
}
