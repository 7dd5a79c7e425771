package main

import (
	"errors"
	"net/netip"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
)

const (
	elsewhere = "endpoint elsewhere replaced"
	here      = "endpoint of this node replaced"
)

// exposedChangeKinds are the changes to Services that are reachable from outside, the
// first of serviceKinds to which each applies, and a limit for its repetitions, if any.
var exposedChangeKinds = []struct {
	changeKind
	from, most int
}{
	{changeKind: changeKind{elsewhere, elsewhere, replaceEndpoint}},
	{changeKind: changeKind{here, here, replaceLocal}},
	{changeKind: endpointAdded},
	{changeKind: serviceAdded},
	{changeKind: changeKind{"policy from Local to Cluster", "policy from Cluster to Local", changePolicy}, from: 2},
	{changeKind: changeKind{"source range more", "source range less", addRange}, from: 3},
	{changeKind: changeKind{"Service with 200 ranges more", "Service with 200 ranges less", newRangedService}, from: 3, most: 3},
}

// exposed measures the cost of Services that are reachable from outside.
func (b *bench) exposed() error {
	if err := b.exposedLoad(); err != nil {
		return err
	}
	promise := &replacePromise{bytes: map[int]bool{}}
	for _, z := range []size{{100, 10}, standard} {
		if err := b.exposedChanges(z, promise); err != nil {
			return err
		}
	}
	promise.promise(b)
	return nil
}

// newExposed returns a cluster of a kind. One Service has the other policy, so that the
// chains exist for a Service that changes to it.
func newExposed(k serviceKind, s size, f model.Family) *cluster {
	c := newClusterOf(k, s, f)
	c.nodeAddrs = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8:2::1")}
	if k.external {
		odd := c.service(servedService)
		odd.ExternalPolicy = other(k.policy)
		c.apply(c.setService(servedService, c.pods(servedService, s.endpoints)))
		c.apply(c.updateService(odd))
	}
	return c
}

// exposedLoad measures the first load of each kind.
func (b *bench) exposedLoad() error {
	s := b.Section("First load of 10,000 Services x 10 endpoints, by kind", "", "model", "compile", "encode", "kernel", "total",
		"floor", "kernel/floor", "total/floor", "total/ClusterIP", "bytes", "elements")
	s.Note("LoadBalancer: each with a node port, a load balancer address and an external IP; Cluster, Local: their policy")
	s.Note("ranges: source ranges, %s of every %sth Service and one of the others", manyRanges, manyRangesEvery)
	var plain time.Duration
	for i, k := range serviceKinds {
		start := time.Now()
		want := newExposed(k, standard, model.IPv4).all()
		t := &loadTimes{model: report.Times{time.Since(start)}}
		for range b.rounds(standard) {
			if err := t.round(want); err != nil {
				return err
			}
		}
		kernel, floor, total := t.kernel.Median(), t.floor.Median(), t.total.Median()
		if i == 0 {
			plain = total
		}
		s.Add(k.name, t.model.Median(), t.adopt.Median(), t.encode.Median(),
			kernel, total, floor, report.Ratio(kernel, floor), report.Ratio(total, floor),
			report.Ratio(total, plain), report.Bytes(t.bytes), t.elements)
	}
	return nil
}

// exposedChanges measures changes to Services of all kinds, in turns.
func (b *bench) exposedChanges(z size, promise *replacePromise) (err error) {
	s := b.Section("Changes among "+z.String()+" endpoints, one of them on this node, by kind",
		"", "p50", "p99", "ours", "kernel", "floor", "kernel/floor", "total/floor", "p50/ClusterIP", "added", "deleted", "objects", "bytes")
	s.Note("ours: model, plan, encode, keep the new state; floor: the same bytes prepared beforehand")
	s.Note("each kind has a network namespace of its own; changes alternate between them in turns of %s", block)
	var testbeds []testbed
	defer func() { err = errors.Join(err, closeTestbeds(testbeds)) }()
	for _, k := range serviceKinds {
		if testbeds, err = appendTestbed(testbeds, newExposed(k, z, model.IPv4)); err != nil {
			return err
		}
	}
	for _, e := range exposedChangeKinds {
		measured, err := measureChanges(e.changeKind, b.exposedRepetitions(e.most), testbeds[e.from:]...)
		if err != nil {
			return err
		}
		for _, name := range e.names() {
			s.Add(name)
			var plain *changeTimes
			if e.from == 0 {
				plain = measured[0][name]
			}
			for i, m := range measured {
				m[name].exposedRow(s, serviceKinds[e.from+i].name, plain)
				promise.record(name, testbeds[e.from+i].proxy.cluster, m[name])
			}
		}
	}
	return nil
}

// exposedRepetitions returns how often a change is measured: less often than others,
// because a change of source ranges takes many milliseconds.
func (b *bench) exposedRepetitions(most int) int {
	turns := b.repetitions() * 2 / 5
	if b.quick {
		turns, most = block, most/3
	}
	if most > 0 {
		return most
	}
	return turns
}

// exposedRow adds a row; plain is the same change of a Service that only has a
// ClusterIP, or nil.
func (t *changeTimes) exposedRow(s *report.Section, label string, plain *changeTimes) {
	p50, kernel, floor := t.total.Median(), t.kernel.Median(), t.floor.Median()
	var against any
	if plain != nil {
		against = report.Ratio(p50, plain.total.Median())
	}
	c := t.counts[0]
	s.Add("  "+label, p50, t.total.At(0.99), p50-kernel, kernel, floor,
		report.Ratio(kernel, floor), report.Ratio(p50, floor), against,
		c.Added, c.Deleted, c.Objects, report.Bytes(t.bytes[0]))
}

// appendTestbed adds a cluster with a kernel of its own.
func appendTestbed(testbeds []testbed, c *cluster) ([]testbed, error) {
	box, err := newSandbox()
	if err != nil {
		return testbeds, err
	}
	testbeds = append(testbeds, testbed{floor: box.raw, close: box.close})
	testbeds[len(testbeds)-1].proxy, err = newProxy(c, box.kernel)
	return testbeds, err
}

func closeTestbeds(testbeds []testbed) error {
	var errs []error
	for _, s := range testbeds {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
