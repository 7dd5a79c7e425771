package main

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// rejection alters batches so that the kernel rejects a Service: the element of the map
// that dispatches it jumps to a base chain, which the kernel refuses with EOPNOTSUPP
// (net/netfilter/nf_tables_api.c, nft_verdict_init).
type rejection struct {
	comment string
	on      atomic.Bool
}

// alter returns the batch with the Service's element altered, if the rejection is on.
func (p *rejection) alter(b nft.Batch) nft.Batch {
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

// rejected measures what a Service that the kernel rejects costs the others: two loops
// follow the same changes, and the batches of one of them are altered.
func (b *bench) rejected() error {
	s := b.Section("One Service that the kernel rejects, among 10,000 x 10", "", "p50", "p99", "slowest",
		"without p50", "p99", "slowest", "p50/without", "p99/without", "rejected", "rejection")
	s.Note("event to commit of a change of another Service, in turns with a loop where nothing is rejected;")
	s.Note("rejected: batches; rejection: how long the kernel takes to reject one, p50. It waits for its readers (RCU).")
	s.Note("found, retried: the other change comes in one burst with a change of the Service that is rejected;")
	s.Note("quarantined: the other changes come alone, while the Service is in quarantine and retried by time")
	for _, f := range b.families() {
		if err := b.rejectedOf(s, f); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) rejectedOf(s *report.Section, family model.Family) (err error) {
	var pair [2]*loopBench // with the rejected Service, and without
	defer func() { err = errors.Join(err, pair[0].close(), pair[1].close()) }()
	ill := &rejection{comment: commentOf(serviceName(rejectedService))}
	for i, alter := range [...]func(nft.Batch) nft.Batch{ill.alter, nil} {
		if pair[i], err = newLoopBench(standard, family, alter); err != nil {
			return err
		}
	}
	episodes, tries := 5*block, 5
	if b.quick {
		episodes, tries = block, 3
	}
	runtime.GC()
	var found, tried, out rejectionTimes
	for i := range episodes {
		if err := episode(pair, ill, i, &found, &tried); err != nil {
			return err
		}
	}
	if err := out.quarantined(pair, ill, tries); err != nil {
		return err
	}
	label := pair[0].label()
	found.row(s, label+", found")
	tried.row(s, label+", retried")
	out.row(s, label+", quarantined")
	with, without := &out.took[0], &out.took[1]
	b.MarkRatio("beside a rejected Service, "+label+", p50", with.Median(),
		"p99 "+report.Text(with.At(0.99))+"; without: p99 "+report.Text(without.At(0.99))+", p50", without.Median(), 1.1)
	return nil
}

// rejectedService is the number of the Service that is rejected. No other change picks it.
const rejectedService = 1

// rejectionTimes holds how long changes of other Services took, with the rejected one
// and without.
type rejectionTimes struct {
	took    [2]report.Times
	refused report.Times
}

func (n *rejectionTimes) row(s *report.Section, label string) {
	with, without := n.took[0], n.took[1]
	s.Add(label, with.Median(), with.At(0.99), with.At(1),
		without.Median(), without.At(0.99), without.At(1),
		report.Ratio(with.Median(), without.Median()), report.Ratio(with.At(0.99), without.At(0.99)),
		len(n.refused), n.refused.Median())
}

// episode has the kernel reject the Service, reject a retry and, unaltered, accept it.
func episode(pair [2]*loopBench, ill *rejection, number int, found, tried *rejectionTimes) error {
	c := pair[0].cluster
	do, undo := otherChange(c, number)
	more := c.setPods(rejectedService, c.pods(rejectedService, c.endpoints+1))
	usual := c.setPods(rejectedService, c.pods(rejectedService, c.endpoints))
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
			if _, err := f.follow(changedService(burst), burst); err != nil {
				return err
			}
		}
	}
	return nil
}

// otherChange returns a change of a Service that is not the rejected one.
func otherChange(c *cluster, number int) (do, undo []sync.Event) {
	if do, undo = replaceEndpoint(c, number); changedService(do) == serviceName(rejectedService) {
		return replaceEndpoint(c, number+1)
	}
	return do, undo
}

// measure sends the burst to both; the last event is about the other Service. The kernel
// must reject the altered batch.
func (n *rejectionTimes) measure(pair [2]*loopBench, burst []sync.Event) error {
	before := len(pair[0].rejections())
	if err := n.follow(pair, burst); err != nil {
		return err
	}
	refused := pair[0].rejections()[before:]
	if n.refused = append(n.refused, refused...); len(refused) == 0 {
		return errors.New("the kernel accepted the altered batch")
	}
	return nil
}

// follow sends the burst to both loops, to each first as often as to the other: the
// second one finds the data in the processor's caches.
func (n *rejectionTimes) follow(pair [2]*loopBench, burst []sync.Event) error {
	second := len(n.took[0]) / 2 % 2
	for k := range pair {
		k ^= second
		o, err := pair[k].follow(changedService(burst[len(burst)-1:]), burst)
		if err != nil {
			return err
		}
		n.took[k] = append(n.took[k], o.took)
	}
	return nil
}

// quarantined has the Service rejected once, and changes others until it has been retried
// so often by time.
func (n *rejectionTimes) quarantined(pair [2]*loopBench, ill *rejection, tries int) error {
	ill.on.Store(true)
	var once rejectionTimes
	c := pair[0].cluster
	do, undo := otherChange(c, 0)
	if err := once.measure(pair, slices.Concat(c.setPods(rejectedService, c.pods(rejectedService, c.endpoints+1)), do)); err != nil {
		return err
	}
	if err := once.follow(pair, undo); err != nil {
		return err
	}
	before := len(pair[0].rejections())
	for i := 0; len(n.refused) < tries; i++ {
		do, undo := otherChange(c, i)
		for _, burst := range [...][]sync.Event{do, undo} {
			if err := n.follow(pair, burst); err != nil {
				return err
			}
		}
		n.refused = pair[0].rejections()[before:]
	}
	return nil
}
