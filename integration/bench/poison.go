package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// poison makes of a Service one that the kernel refuses: its element of the map that
// dispatches leads to a chain that nothing may go to. The kernel says no with
// EOPNOTSUPP (net/netfilter/nf_tables_api.c, nft_verdict_init).
type poison struct {
	comment string
	on      atomic.Bool
}

// into alters a batch.
func (p *poison) into(b nft.Batch) nft.Batch {
	if !p.on.Load() {
		return b
	}
	for i, op := range b {
		add, ok := op.(nft.AddElements)
		if !ok || add.Set.Kind != nft.SetServices {
			continue
		}
		b, add.Elements = slices.Clone(b), slices.Clone(add.Elements)
		for j := range add.Elements {
			if e := &add.Elements[j]; strings.HasPrefix(e.ServiceName(), p.comment) {
				e.Value.Chain = nft.ChainID{Family: add.Set.Family, Kind: nft.ChainNATPrerouting}
			}
		}
		b[i] = add
	}
	return b
}

// poisoned measures what a Service that the kernel refuses costs the others: two
// loops follow the same changes, and one of them has the poison.
func (b *bench) poisoned() error {
	s := b.Section("One Service that the kernel refuses, among 10,000 x 10", "", "p50", "p99", "slowest",
		"without p50", "p99", "slowest", "p50/without", "p99/without", "refused", "refusal")
	s.Note("event to commit of a change of another Service, in turns with a loop where nothing is refused;")
	s.Note("refused: batches; refusal: how long the kernel takes to say no, p50. It waits for its readers (RCU) then.")
	s.Note("found, tried again: the other change comes in one burst with a change of the Service that is refused then;")
	s.Note("left out: the other changes come alone, while the Service is left out and tried again by time")
	for _, f := range b.families() {
		if err := b.poisonedOf(s, f); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) poisonedOf(s *report.Section, family model.Family) (err error) {
	var pair [2]*follower // with the poison, and without
	defer func() { err = errors.Join(err, pair[0].close(), pair[1].close()) }()
	ill := &poison{comment: commentOf(serviceName(sickService))}
	for i, alter := range [...]func(nft.Batch) nft.Batch{ill.into, nil} {
		if pair[i], err = newFollower(standard, family, alter); err != nil {
			return err
		}
	}
	episodes, tries := 5*block, 5
	if b.quick {
		episodes, tries = block, 3
	}
	runtime.GC()
	var found, tried, out illness
	for i := range episodes {
		if err := episode(pair, ill, i, &found, &tried); err != nil {
			return err
		}
	}
	if err := out.leftOut(pair, ill, tries); err != nil {
		return err
	}
	label := pair[0].label()
	found.row(s, label+", found")
	tried.row(s, label+", tried again")
	out.row(s, label+", left out")
	with, without := &out.took[0], &out.took[1]
	b.MarkRatio("beside a poisoned Service, "+label+", p50", with.Median(),
		fmt.Sprintf("p99 %s; without: p99 %s, p50", with.At(0.99), without.At(0.99)), without.Median(), 1.1)
	return nil
}

// sickService is the number of the Service that is refused. It is taken out of the
// way of those that other changes are about.
const sickService = 1

// illness is how long changes of others took, with the poison and without.
type illness struct {
	took    [2]report.Times
	refused report.Times
}

func (n *illness) row(s *report.Section, label string) {
	with, without := n.took[0], n.took[1]
	s.Add(label, with.Median(), with.At(0.99), with.At(1),
		without.Median(), without.At(0.99), without.At(1),
		report.Ratio(with.Median(), without.Median()), report.Ratio(with.At(0.99), without.At(0.99)),
		len(n.refused), n.refused.Median())
}

// episode has the Service refused, tried again and, without the poison, taken.
func episode(pair [2]*follower, ill *poison, number int, found, tried *illness) error {
	c := pair[0].cluster
	do, undo := bystander(c, number)
	more := c.exchange(sickService, c.pods(sickService, c.endpoints+1))
	usual := c.exchange(sickService, c.pods(sickService, c.endpoints))
	ill.on.Store(true)
	if err := found.measure(pair, slices.Concat(more, do)); err != nil {
		return err
	}
	if err := tried.measure(pair, slices.Concat(usual, undo)); err != nil {
		return err
	}
	ill.on.Store(false)
	for _, f := range pair {
		for _, burst := range [...][]sync.Event{more, usual} {
			if _, err := f.follow(subject(burst), burst); err != nil {
				return err
			}
		}
	}
	return nil
}

// bystander is a change of a Service that is not the sick one.
func bystander(c *cluster, number int) (do, undo []sync.Event) {
	if do, undo = replaceEndpoint(c, number); subject(do) == serviceName(sickService) {
		return replaceEndpoint(c, number+1)
	}
	return do, undo
}

// measure sends the burst to both; the last event is about the other Service. The
// kernel must have refused what has the poison.
func (n *illness) measure(pair [2]*follower, burst []sync.Event) error {
	before := len(pair[0].refusals())
	if err := n.follow(pair, burst); err != nil {
		return err
	}
	refused := pair[0].refusals()[before:]
	if n.refused = append(n.refused, refused...); len(refused) == 0 {
		return errors.New("the kernel did not refuse what it should have refused")
	}
	return nil
}

// follow sends the burst to both, to each as often first as the other: the second finds
// it in the processor's caches.
func (n *illness) follow(pair [2]*follower, burst []sync.Event) error {
	second := len(n.took[0]) / 2 % 2
	for k := range pair {
		k ^= second
		o, err := pair[k].follow(subject(burst[len(burst)-1:]), burst)
		if err != nil {
			return err
		}
		n.took[k] = append(n.took[k], o.took)
	}
	return nil
}

// leftOut has the Service refused once and makes changes of others from then on,
// until it was tried again by time so often.
func (n *illness) leftOut(pair [2]*follower, ill *poison, tries int) error {
	ill.on.Store(true)
	var once illness
	c := pair[0].cluster
	do, undo := bystander(c, 0)
	if err := once.measure(pair, slices.Concat(c.exchange(sickService, c.pods(sickService, c.endpoints+1)), do)); err != nil {
		return err
	}
	if err := once.follow(pair, undo); err != nil {
		return err
	}
	before := len(pair[0].refusals())
	for i := 0; len(n.refused) < tries; i++ {
		do, undo := bystander(c, i)
		for _, burst := range [...][]sync.Event{do, undo} {
			if err := n.follow(pair, burst); err != nil {
				return err
			}
		}
		n.refused = pair[0].refusals()[before:]
	}
	return nil
}
