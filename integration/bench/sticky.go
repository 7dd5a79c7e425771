package main

import (
	"errors"
	"slices"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// stickyKinds are pairs: the same without and with session affinity.
var stickyKinds = []serviceKind{
	{name: "ClusterIP", onNode: 10},
	{name: "ClusterIP, sticky", onNode: 10, sticky: true},
	{name: "LoadBalancer, Local", onNode: 10, external: true, policy: model.PolicyLocal},
	{name: "LoadBalancer, Local, sticky", onNode: 10, external: true, policy: model.PolicyLocal, sticky: true},
}

// sticky measures the cost of session affinity.
func (b *bench) sticky() error {
	for _, z := range []size{{1_000, 10}, {3_000, 10}, standard} {
		if b.quick && z == standard {
			continue
		}
		if err := errors.Join(b.stickyLoad(z), b.stickyChanges(z)); err != nil {
			return err
		}
	}
	return nil
}

// stickyLoad measures first loads, plain and sticky ones in turns.
func (b *bench) stickyLoad(z size) error {
	s := b.Section("First load of "+z.String()+" endpoints, with session affinity", "", "kernel", "total", "floor", "bytes")
	for pair := range slices.Chunk(stickyKinds, 2) {
		var times [2]loadTimes
		want := [2]nft.Change{newClusterOf(pair[0], z, model.IPv4).all(), newClusterOf(pair[1], z, model.IPv4).all()}
		for range b.rounds(z) {
			for i := range pair {
				if err := times[i].round(want[i]); err != nil {
					return err
				}
			}
		}
		plain := times[0].total.Median()
		for i, k := range pair {
			t := &times[i]
			s.Add(k.name, t.kernel.Median(), t.total.Median(), t.floor.Median(), report.Bytes(t.bytes))
		}
		b.MarkRatio("first load, "+z.String()+", "+pair[1].name, times[1].total.Median(), "plain", plain, 2)
	}
	return nil
}

// stickyChanges measures changes on their way through the loop, in turns.
func (b *bench) stickyChanges(z size) (err error) {
	s := b.eventSection("Changes among " + z.String() + " endpoints, with session affinity")
	var all []*loopBench
	defer func() { err = errors.Join(err, closeLoops(all)) }()
	for _, k := range stickyKinds {
		one, err := startLoopWithFloor(&cluster{size: z, serviceKind: k, family: model.IPv4})
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	replaced := changeKind{endpointReplaced, endpointReplaced, replaceEndpoint}
	replacedHere := changeKind{"endpoint of this node replaced", "endpoint of this node replaced", replaceLocal}
	for _, e := range []changeKind{replaced, replacedHere, endpointAdded, serviceAdded} {
		measured, err := measureEvents(e, 5*block, all)
		if err != nil {
			return err
		}
		for _, name := range slices.Compact([]string{e.name, e.opposite}) {
			s.Add(name)
			for i, m := range measured {
				plain := measured[i-i%2][name]
				m[name].row(s, "  "+stickyKinds[i].name)
				if i%2 == 1 && e.name == e.opposite {
					b.MarkRatio(name+", "+z.String()+", "+stickyKinds[i].name, m[name].total.Median(), "plain", plain.total.Median(), 2)
				}
			}
		}
	}
	return nil
}
