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

// exposedEdits are the changes to Services that traffic from outside reaches, from
// which kind on they make sense, and how often they are repeated at most if not as
// often as others.
var exposedEdits = []struct {
	edit
	from, most int
}{
	{edit: edit{elsewhere, elsewhere, replaceEndpoint}},
	{edit: edit{here, here, replaceLocal}},
	{edit: moreEndpoints},
	{edit: moreServices},
	{edit: edit{"policy from Local to Cluster", "policy from Cluster to Local", changePolicy}, from: 2},
	{edit: edit{"source range more", "source range less", addRange}, from: 3},
	{edit: edit{"Service with 200 ranges more", "Service with 200 ranges less", newRangedService}, from: 3, most: 3},
}

// exposed measures what it costs that a Service can be reached from outside.
func (b *bench) exposed() error {
	if err := b.exposedLoad(); err != nil {
		return err
	}
	law := &law{bytes: map[int]bool{}}
	for _, z := range []size{{100, 10}, standard} {
		if err := b.exposedChanges(z, law); err != nil {
			return err
		}
	}
	law.promise(b)
	return nil
}

// newExposed makes a cluster of a kind. One Service has the other policy, so that
// one that changes to it finds its chains there.
func newExposed(k kind, s size, f model.Family) *cluster {
	c := newClusterOf(k, s, f)
	c.nodeAddrs = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8:2::1")}
	if k.external {
		odd := c.service(served)
		odd.ExternalPolicy = other(k.policy)
		c.apply(c.set(served, c.pods(served, s.endpoints)))
		c.apply(c.rewrite(odd))
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
	for i, k := range kinds {
		start := time.Now()
		want := newExposed(k, standard, model.IPv4).all()
		t := &loadTimes{model: report.Times{time.Since(start)}}
		for range b.rounds(standard) {
			if err := t.round(want); err != nil {
				return err
			}
		}
		kernel, floor, total := t.kernel.Median(), t.bare.Median(), t.total.Median()
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
func (b *bench) exposedChanges(z size, law *law) (err error) {
	s := b.Section("Changes among "+z.String()+" endpoints, one of them on this node, by kind",
		"", "p50", "p99", "ours", "kernel", "floor", "kernel/floor", "total/floor", "p50/ClusterIP", "added", "deleted", "objects", "bytes")
	s.Note("ours: model, plan, encode and note the new state; floor: the same bytes prepared beforehand")
	s.Note("all kinds stand side by side, each in a network namespace of its own, and are changed in turns of %s", block)
	var stands []stand
	defer func() { err = errors.Join(err, closeStands(stands)) }()
	for _, k := range kinds {
		if stands, err = appendStand(stands, newExposed(k, z, model.IPv4)); err != nil {
			return err
		}
	}
	for _, e := range exposedEdits {
		measured, err := repeat(e.edit, b.exposedTurns(e.most), stands[e.from:]...)
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
				m[name].exposedRow(s, kinds[e.from+i].name, plain)
				law.note(name, stands[e.from+i].proxy.cluster, m[name])
			}
		}
	}
	return nil
}

// exposedTurns is how often a change is repeated: less often than others, because
// a change of source ranges takes many milliseconds.
func (b *bench) exposedTurns(most int) int {
	turns := b.turns() * 2 / 5
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
	p50, kernel, floor := t.total.Median(), t.kernel.Median(), t.bare.Median()
	var against any
	if plain != nil {
		against = report.Ratio(p50, plain.total.Median())
	}
	c := t.counts[0]
	s.Add("  "+label, p50, t.total.At(0.99), p50-kernel, kernel, floor,
		report.Ratio(kernel, floor), report.Ratio(p50, floor), against,
		c.Added, c.Deleted, c.Objects, report.Bytes(t.bytes[0]))
}

// appendStand adds a cluster with a kernel of its own.
func appendStand(stands []stand, c *cluster) ([]stand, error) {
	box, err := newSandbox()
	if err != nil {
		return stands, err
	}
	stands = append(stands, stand{floor: box.bare, done: box.close})
	stands[len(stands)-1].proxy, err = newProxy(c, box.kernel)
	return stands, err
}

func closeStands(stands []stand) error {
	var errs []error
	for _, s := range stands {
		errs = append(errs, s.done())
	}
	return errors.Join(errs...)
}
