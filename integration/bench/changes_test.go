package bench

import (
	"runtime"
	"testing"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab/labtest"
)

type changeKind struct {
	name  string
	turns int
	// prepare returns a change to one Service, another one for each turn, and the opposite.
	// It builds the objects, so that this is not measured.
	prepare func(c *cluster, turn int) (do, undo func())
}

// changeKinds are repeated often enough for what is looked at: for one, the slowest of a
// hundred.
var changeKinds = []changeKind{
	{"replaced", 100 * block, replaceEndpoint},
	{"endpoint-added", 10 * block, addEndpoint},
	{"Service-added", 10 * block, addService},
}

// block is how many changes are measured with one node before the next one has its turn,
// because each begins with the processor's caches full of the other's data.
const block = 20

// changeTimes are those of a change that was repeated. It is undone after each, when the data of
// the Service is in the processor's caches.
type changeTimes struct {
	change, undone, floor report.Times
	bytes                 report.Sample[int]
}

// BenchmarkChanges measures single changes, from the changed objects to the commit, of all
// clusters in turns.
func BenchmarkChanges(b *testing.B) {
	labtest.Require(b)
	var nodes []*node
	var floors []*sandbox
	for _, c := range clusters() {
		n, batch := newNode(b, c)
		floor := newSandbox(b)
		b.Cleanup(floor.close)
		floor.send(b, prepare(b, batch)...)
		nodes, floors = append(nodes, n), append(floors, floor)
	}
	for _, k := range changeKinds {
		if testing.Short() {
			k.turns /= 5
		}
		times := make([]changeTimes, len(nodes))
		runtime.GC()
		for turn := range k.turns / block {
			for i, n := range nodes {
				for j := range block {
					times[i].measure(b, n, floors[i], k, turn*block+j)
				}
			}
		}
		for i, n := range nodes {
			report.Line(b, k.name+"/"+n.String(), k.figures(n.cluster, times[:i+1])...)
		}
	}
}

// measure makes a change and its opposite, then sends the same bytes.
func (t *changeTimes) measure(b *testing.B, n *node, floor *sandbox, k changeKind, turn int) {
	b.Helper()
	do, undo := k.prepare(n.cluster, turn)
	change, undone := n.follow(b, do), n.follow(b, undo)
	t.change.Add(change.took)
	t.undone.Add(undone.took)
	t.bytes.Add(change.Bytes)
	t.floor.Add(floor.send(b, prepare(b, change.batch)...))
	floor.send(b, prepare(b, undone.batch)...)
}

// figures returns those of the last times, which are the cluster's. The first are those of the
// smallest one.
func (k *changeKind) figures(c *cluster, times []changeTimes) []report.Figure {
	t := &times[len(times)-1]
	p50, p99, floor := t.change.Median(), t.change.At(0.99), t.floor.Median()
	replaced := k.name == changeKinds[0].name
	switch {
	case replaced && c.sticky:
		plain := times[len(times)-2].change.Median()
		return []report.Figure{report.Time("ms", p50, 0), report.Ratio("x-not-sticky", p50, plain, 2)}
	case replaced && c.large():
		f := []report.Figure{
			report.Time("ms", p50, time.Millisecond), report.Time("ms-p99", p99, 3*time.Millisecond),
			report.Number("B", t.bytes.At(1), 216),
		}
		if c.endpoints == standard.endpoints {
			// That of a hundred small Services is always in the caches.
			f = append(f, report.Ratio("x-100-in-caches", t.undone.Median(), times[0].undone.Median(), 1.3))
		}
		return f
	case c.large():
		return []report.Figure{report.Time("ms", p50, 0), report.Ratio("x-floor", p50, floor, 1.5)}
	}
	return []report.Figure{report.Time("ms", p50, 0), report.Ratio("x-floor", p50, floor, 0)}
}

func replaceEndpoint(c *cluster, turn int) (do, undo func()) {
	i, j := c.pickPod(turn)
	before, after := c.slice(i, c.endpoints), c.slice(i, c.endpoints)
	after.Endpoints[j] = c.pod(i, c.endpoints)
	return func() { c.services.SetSlice(after) }, func() { c.services.SetSlice(before) }
}

func addEndpoint(c *cluster, turn int) (do, undo func()) {
	i, _ := c.pickPod(turn)
	before, after := c.slice(i, c.endpoints), c.slice(i, c.endpoints+1)
	return func() { c.services.SetSlice(after) }, func() { c.services.SetSlice(before) }
}

func addService(c *cluster, turn int) (do, undo func()) {
	i := c.size.services + 1 + turn
	s, e := c.service(i), c.slice(i, c.endpoints)
	return func() { c.set(s, e) }, func() {
		c.services.DeleteService(s.Name)
		c.services.DeleteSlice(e.Name)
	}
}

// pickPod returns a pod for a change, another one each time and none of this node.
func (c *cluster) pickPod(turn int) (service, pod int) {
	const stride = 7919 // a prime, so that consecutive changes are far apart in every map
	service, pod = turn*stride%c.size.services, turn*stride%c.endpoints
	if c.here(service, pod) {
		service, pod = (service+1)%c.size.services, (pod+1)%c.endpoints
	}
	return service, pod
}
