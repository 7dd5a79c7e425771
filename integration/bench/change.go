package main

import (
	"runtime"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// changeTimes are those of one kind of change, repeated.
type changeTimes struct {
	total, model, ours, kernel, bare report.Times
	bytes                            []int
	counts                           []nft.Counts
}

// change measures single changes: from an object that is at hand to the commit.
func (b *bench) change() error {
	s := b.Section("Single changes", "", "p50", "p99", "model", "ours", "kernel",
		"floor p50", "floor p99", "kernel/floor", "total/floor", "bytes")
	s.Note("from changed object to commit; model: selection of endpoints; ours: plan, encode and note the new state (p50 all)")
	s.Note("floor: the same bytes prepared beforehand, sent in turns with ours to the same tables")
	replaced := map[int]bool{}
	err := b.clusters(func(c *cluster) error {
		return inSandbox(func(box *sandbox) error {
			p, err := newProxy(c, box.kernel)
			if err != nil {
				return err
			}
			for _, e := range edits {
				measured, err := repeat(e, b.turns(), stand{proxy: p, floor: box.bare})
				if err != nil {
					return err
				}
				for _, name := range e.names() {
					t := measured[0][name]
					t.row(s, c.label()+", "+name)
					if name == replaces {
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

// promiseReplaced checks what is promised of the most common change.
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
	kernel, floor := t.kernel.Median(), t.bare.Median()
	s.Add(label, t.total.Median(), t.total.At(0.99), t.model.Median(), t.ours.Median(),
		kernel, floor, t.bare.At(0.99),
		report.Ratio(kernel, floor), report.Ratio(t.total.Median(), floor), report.Bytes(t.bytes[0]))
}

// names are the change and its opposite, once if they are the same.
func (e *edit) names() []string {
	if e.does == e.undoes {
		return []string{e.does}
	}
	return []string{e.does, e.undoes}
}

// turns is how often a change and its opposite are repeated.
func (b *bench) turns() int {
	if b.quick {
		return 100
	}
	return 250
}

// stand is a proxy, and what sends prepared bytes to the same kernel.
type stand struct {
	proxy *proxy
	floor *bare
	done  func() error // closes what was made for it alone, if anything was
}

// turn is one change and its opposite, and the bytes they are known to send.
type turn struct {
	change [2][]sync.Event
	bytes  [2][]byte
}

// block is how many turns a stand has until it is the next one's. One that begins
// finds the processor's caches full of the former one's.
const block = 20

// repeat makes the change and its opposite over and over, on all stands by turns,
// and on each ours and bare. What is bare is prepared before any of it, so that
// ours does not find everything fresh in the processor's caches.
func repeat(e edit, turns int, stands ...stand) ([]map[string]*changeTimes, error) {
	all := make([][]turn, len(stands))
	measured := make([]map[string]*changeTimes, len(stands))
	for k, s := range stands {
		measured[k] = map[string]*changeTimes{e.does: {}, e.undoes: {}}
		all[k] = make([]turn, turns)
		for i := range all[k] {
			if err := all[k][i].prepare(e, s.proxy, i); err != nil {
				return nil, err
			}
		}
	}
	runtime.GC()
	for i := 0; i < turns; i += block {
		for k, s := range stands {
			to := [2]*changeTimes{measured[k][e.does], measured[k][e.undoes]}
			for _, t := range all[k][i:min(i+block, turns)] {
				if err := t.run(s, to); err != nil {
					return nil, err
				}
			}
		}
	}
	return measured, nil
}

func (t *turn) prepare(e edit, p *proxy, number int) (err error) {
	t.change[0], t.change[1] = e.prepare(p.cluster, number)
	for i, change := range t.change {
		if t.bytes[i], err = p.rehearse(change); err != nil {
			return err
		}
	}
	return nil
}

// run makes the change and its opposite, then sends the same bytes.
func (t *turn) run(s stand, to [2]*changeTimes) error {
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
		to[i].bare = append(to[i].bare, took)
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
