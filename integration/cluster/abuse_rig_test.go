package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
)

// attack is a list of objects that one tenant writes to the API.
type attack struct {
	name string
	// create returns the objects as they are created, changes their later versions. At the
	// end they are deleted.
	create, changes func() []metav1.Object
}

// TestAbuse runs attacks, of which the long suite has all, while an honest tenant's Services are
// asked and changed, and while another program writes to nf_tables. It prints the cost of each
// phase. docs/costs.md has the worst figures.
func TestAbuse(t *testing.T) {
	if testing.Short() { // times do not count
		t.Parallel()
	}
	a := newAbuse(t)
	for i, k := range attacks() {
		if testing.Short() && i%4 != 1 {
			continue // of the long suite
		}
		t.Run(k.name, func(t *testing.T) { a.runAttack(t, &k) })
	}
}

// abuse is a cluster of one node with two tenants. The honest one, whose namespace is
// the scene's, has a Service that clients ask, and one that is changed all the time.
type abuse struct {
	*scene
	writer *writer
	victim traffic.Target
	mover  *changer
}

// newAbuse creates everything but the proxy.
func newAbuse(t *testing.T) *abuse {
	t.Helper()
	a := &abuse{scene: newScene(t, clustertest.Alone, lab.Options{Pods: 4})}
	client := a.clients[0]
	a.clients = []*traffic.Client{client, a.clients[2]} // a pod, and the host outside
	a.victim = a.manualService(t, "victim", a.Lab.Pods[0])
	a.writer = &writer{evil: a.Namespace(t)}
	var err error
	a.mover, err = newChanger(clustertest.Context(t), a.ns, client, a.Lab.Pods[1], a.Lab.Pods[2])
	clustertest.Must(t, err)
	return a
}

// phaseTimeout is for a phase of an attack, which also ends after one in which others had to wait
// for too long.
const phaseTimeout = 3 * time.Minute

// runAttack makes an attack on a proxy of its own.
func (a *abuse) runAttack(t *testing.T, k *attack) {
	r := &attackRun{abuse: a, t: t, attack: k}
	defer r.end()
	r.begin()
	if !r.phase(http.MethodPost, k.create()) || !r.phase(http.MethodPut, k.changes()) || !r.phase(http.MethodDelete, k.create()) {
		return
	}
	r.checkNothingLeft()
	allResponsive(t, r.proxy)
	r.over = true
}

type attackRun struct {
	*abuse
	t         *testing.T
	attack    *attack
	neighbour *neighbour
	crowd     *traffic.Crowd
	before    state
	over      bool // all phases are completed
}

// begin starts the proxy, another program that uses nf_tables, and the honest tenant.
func (r *attackRun) begin() {
	t := r.t
	t.Helper()
	r.proxy = r.Proxy(t, r.Lab.Node, "--profiling")
	var err error
	r.neighbour, err = startNeighbour(r.Lab.Node.Host)
	clustertest.Must(t, err)
	r.crowd = traffic.Start(r.clients...)
	clustertest.Must(t, r.crowd.Add(clustertest.Context(t), r.victim))
	_, err = r.mover.move(clustertest.Context(t))
	clustertest.Must(t, err)
	r.before, err = r.state()
	clustertest.Must(t, err)
}

// end stops what begin started, and removes the attack's objects, and the rules of a proxy that was
// killed before it followed.
func (r *attackRun) end() {
	t := r.t
	if r.neighbour == nil {
		return // begin failed
	}
	if asked, err := r.crowd.Stop(); err != nil || asked == 0 {
		t.Errorf("the victim, asked %d times: %v", asked, err)
	}
	if err := r.neighbour.end(); err != nil {
		t.Error(err)
	}
	r.proxy.Kill()
	if r.over {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), clustertest.Patience)
	defer cancel()
	if _, _, err := r.writer.all(ctx, http.MethodDelete, r.attack.create()); err != nil {
		t.Error(err)
	}
	for _, family := range []string{"ip", "ip6"} {
		// It does not exist if the proxy was killed earlier.
		_ = r.Lab.Node.Command(ctx, "nft", "delete", "table", family, "kube-vmap").Run()
	}
}

// phase runs a part of the attack, waits until the proxy has followed, and checks the
// cost. It reports whether the attack can go on.
func (r *attackRun) phase(method string, all []metav1.Object) bool {
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
	r.crowd.Longest()
	r.neighbour.take()
	from, err := r.proxy.Cost()
	clustertest.Must(t, err)
	lines, events := r.proxy.Log.Len(), r.events()
	start := time.Now()
	var writes, written int
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		if writes, written, err = r.writer.all(ctx, method, all); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}()
	follow, err := r.mover.moveUntil(ctx, done)
	<-done
	if err != nil {
		t.Errorf("%s: the proxy did not follow within %s: %v", method, time.Since(start).Round(time.Second), err)
		return false
	}
	r.neighbour.turn()
	took, lock := time.Since(start), r.neighbour.take()
	loggedLines, logged := lengths(r.proxy.Log.Lines(lines))
	to, err := r.proxy.Cost()
	clustertest.Must(t, err)
	now := r.settledState()
	check(t, fmt.Sprintf("%s of %d objects, %d bytes, in %s", method, writes, written, took.Round(time.Millisecond)),
		figure{"ms of CPU time", (to.CPU - from.CPU).Milliseconds(), (maxCPU + maxCPUPerMB*time.Duration(written)>>20).Milliseconds(), false},
		figure{"bytes of resident memory", int64(to.PeakRSS) - int64(r.before.rss), maxRSS, false},
		figure{"bytes of live memory", int64(now.heap - r.before.heap), maxHeap, false},
		figure{"lines of log", int64(loggedLines), int64(maxLines + maxLinesPerWrite*writes), false},
		figure{"bytes of log", int64(logged), int64(maxBytes + maxBytesPerWrite*writes), false},
		figure{"Events", int64(r.events() - events), maxEvents, false},
		figure{"elements", int64(now.elements), maxElements, false},
		figure{"chains and sets", int64(now.objects), maxObjects, false},
		figure{"ms until an answer of the victim", r.crowd.Longest().Milliseconds(), maxAnswer.Milliseconds(), true},
		figure{"ms until a change of another Service was followed", follow.Milliseconds(), maxFollow.Milliseconds(), true},
		figure{"ms of a transaction of another program", lock.Milliseconds(), maxLock.Milliseconds(), true},
	)
	return testing.Short() || follow <= maxFollow && lock <= maxLock
}
