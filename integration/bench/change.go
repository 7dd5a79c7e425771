package main

import (
	"runtime"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// changeTimes are the times of a change that was repeated.
type changeTimes struct {
	total, model, ours, kernel, floor report.Times
	bytes                             []int
	counts                            []nft.Counts
}

// change measures single changes, from an object in memory to the commit.
func (b *bench) change() error {
	s := b.Section("Single changes", "", "p50", "p99", "model", "ours", "kernel",
		"floor p50", "floor p99", "kernel/floor", "total/floor", "bytes")
	s.Note("from changed object to commit; model: selection of endpoints; ours: plan, encode, keep the new state (p50 all)")
	s.Note("floor: the same bytes prepared beforehand, sent in turns with ours to the same tables")
	replaced := map[int]bool{}
	err := b.clusters(func(c *cluster) error {
		return inSandbox(func(box *sandbox) error {
			p, err := newProxy(c, box.kernel)
			if err != nil {
				return err
			}
			for _, e := range changeKinds {
				measured, err := measureChanges(e, b.repetitions(), testbed{proxy: p, floor: box.raw})
				if err != nil {
					return err
				}
				for _, name := range e.names() {
					t := measured[0][name]
					t.row(s, c.label()+", "+name)
					if name == endpointReplaced {
						b.promiseReplaced(c, t, replaced)
					}
				}
			}
			return nil
		})
	})
	b.Promise(len(replaced) == 1, "endpoint replaced, ip: the same number of bytes at all sizes")
	return err
}

// promiseReplaced checks the promise about the most common change.
func (b *bench) promiseReplaced(c *cluster, t *changeTimes, bytes map[int]bool) {
	if c.family != 0 {
		return
	}
	for _, n := range t.bytes {
		bytes[n] = true
	}
	if c.size == standard {
		p50 := t.total.Median()
		b.Promise(p50 < time.Millisecond, "endpoint replaced, %s: p50 %s, below 1 ms", c.label(), p50)
	}
}

func (t *changeTimes) row(s *report.Section, label string) {
	kernel, floor := t.kernel.Median(), t.floor.Median()
	s.Add(label, t.total.Median(), t.total.At(0.99), t.model.Median(), t.ours.Median(),
		kernel, floor, t.floor.At(0.99),
		report.Ratio(kernel, floor), report.Ratio(t.total.Median(), floor), report.Bytes(t.bytes[0]))
}

// names returns the names of the change and its opposite, once if they are the same.
func (e *changeKind) names() []string {
	if e.name == e.opposite {
		return []string{e.name}
	}
	return []string{e.name, e.opposite}
}

// repetitions returns how often a change and its opposite are measured.
func (b *bench) repetitions() int {
	if b.quick {
		return 100
	}
	return 250
}

// testbed is a proxy, and a socket that sends prepared bytes to the same kernel.
type testbed struct {
	proxy *proxy
	floor *rawSocket
	close func() error // closes its namespace; nil if others use it
}

// changePair is a change and its opposite, and the bytes that they send.
type changePair struct {
	change [2][]sync.Event
	bytes  [2][]byte
}

// block is how many pairs are measured on one testbed before the next one has its turn,
// because each begins with the processor's caches full of the other's data.
const block = 20

// measureChanges repeats the change and its opposite, on all testbeds in turns, through
// the proxy and as prepared bytes. These are encoded before the first measurement, so
// that the proxy does not find its data in the processor's caches.
func measureChanges(e changeKind, turns int, testbeds ...testbed) ([]map[string]*changeTimes, error) {
	all := make([][]changePair, len(testbeds))
	measured := make([]map[string]*changeTimes, len(testbeds))
	for k, s := range testbeds {
		measured[k] = map[string]*changeTimes{e.name: {}, e.opposite: {}}
		all[k] = make([]changePair, turns)
		for i := range all[k] {
			if err := all[k][i].prepare(e, s.proxy, i); err != nil {
				return nil, err
			}
		}
	}
	runtime.GC()
	for i := 0; i < turns; i += block {
		for k, s := range testbeds {
			to := [2]*changeTimes{measured[k][e.name], measured[k][e.opposite]}
			for _, t := range all[k][i:min(i+block, turns)] {
				if err := t.run(s, to); err != nil {
					return nil, err
				}
			}
		}
	}
	return measured, nil
}

func (t *changePair) prepare(e changeKind, p *proxy, number int) (err error) {
	t.change[0], t.change[1] = e.prepare(p.cluster, number)
	for i, change := range t.change {
		if t.bytes[i], err = p.rehearse(change); err != nil {
			return err
		}
	}
	return nil
}

// run makes the change and its opposite, then sends the same bytes.
func (t *changePair) run(s testbed, to [2]*changeTimes) error {
	for i, change := range t.change {
		if err := to[i].follow(s.proxy, change); err != nil {
			return err
		}
	}
	for i, bytes := range t.bytes {
		took, err := s.floor.send(bytes)
		if err != nil {
			return err
		}
		to[i].floor = append(to[i].floor, took)
	}
	return nil
}

func (t *changeTimes) follow(p *proxy, change []sync.Event) error {
	f, err := p.follow(change)
	if err != nil {
		return err
	}
	t.total, t.model = append(t.total, f.total), append(t.model, f.model)
	t.ours, t.kernel = append(t.ours, f.ours()), append(t.kernel, f.Kernel)
	t.bytes, t.counts = append(t.bytes, f.Bytes), append(t.counts, f.counts)
	return nil
}
