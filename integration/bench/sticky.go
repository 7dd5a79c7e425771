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
	s := b.Section("First load of "+z.String()+" endpoints, with session affinity", "", "compile", "encode", "kernel", "total",
		"floor", "kernel/floor", "total/plain", "bytes")
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
			kernel, floor, total := t.kernel.Median(), t.floor.Median(), t.total.Median()
			s.Add(k.name, t.adopt.Median(), t.encode.Median(), kernel, total, floor,
				report.Ratio(kernel, floor), report.Ratio(total, plain), report.Bytes(t.bytes))
		}
		b.MarkRatio("first load, "+z.String()+", "+pair[1].name, times[1].total.Median(), "plain", plain, 2)
	}
	return nil
}

// stickyChanges measures changes on their way through the loop, in turns.
func (b *bench) stickyChanges(z size) (err error) {
	s := b.Section("Changes among "+z.String()+" endpoints, with session affinity", eventColumns("plain")...)
	var all []*loopBench
	defer func() { err = errors.Join(err, closeLoops(all)) }()
	for _, k := range stickyKinds {
		one, err := newLoopBenchWithFloor(&cluster{size: z, serviceKind: k, family: model.IPv4})
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	replaced := changeKind{endpointReplaced, endpointReplaced, replaceEndpoint}
	for _, e := range []changeKind{replaced, endpointReplacedHere, endpointAdded, serviceAdded} {
		measured, err := measureEvents(e, 5*block, all)
		if err != nil {
			return err
		}
		for _, name := range e.names() {
			s.Add(name)
			for i, m := range measured {
				plain := measured[i-i%2][name]
				m[name].eventRow(s, "  "+stickyKinds[i].name, plain)
				if i%2 == 1 && e.name == e.opposite {
					b.MarkRatio(name+", "+z.String()+", "+stickyKinds[i].name, m[name].total.Median(), "plain", plain.total.Median(), 2)
				}
			}
		}
	}
	return nil
}
