package nft

import (
	"maps"

	"kube-vmap/model"
)

// Plan is a change worked out against a [Ruleset], and the batch that makes it.
// It is good for one commit, of the state it was made for.
type Plan struct {
	Batch Batch

	change  Change
	set     []*programmed
	targets map[ChainID]int // differences in use
	shared  map[sharedKey]int
	counts  map[SetID]int
	chains  map[ChainID]struct{} // all that are needed afterwards
	sizes   map[SetID]uint32
	edit    *edit
}

// Plan works out the batch for a change; the state stays as it is. Its cost is
// that of the frontends in the change; of all chains, of which there are some
// hundreds at most, if one comes or goes; and of everything if a set outgrows its
// size, which is then built anew with twice the room.
func (r *Ruleset) Plan(c Change) *Plan {
	p := &Plan{
		change:  c,
		targets: map[ChainID]int{},
		shared:  map[sharedKey]int{},
		counts:  map[SetID]int{},
		edit:    newEdit(),
	}
	for i := range c.Set {
		f := c.Set[i]
		old := r.frontends[f.Match]
		slots := f.Endpoints
		if old != nil {
			slots = assignSlots(old.slots, f.Endpoints)
		}
		next := place(f, slots)
		p.set = append(p.set, next)
		p.replace(old, next)
	}
	for _, m := range c.Gone {
		p.replace(r.frontends[m], nil)
	}
	p.settleShared(r)
	p.settleCIDRs(r)
	p.settleObjects(r)
	p.Batch = p.edit.batch(&r.config)
	return p
}

// replace notes how the elements of one frontend change; either may be nil.
func (p *Plan) replace(old, next *programmed) {
	var have, want []placed
	if old != nil {
		have = old.compile(nil)
		p.use(old, -1)
	}
	if next != nil {
		want = next.compile(nil)
		p.use(next, 1)
	}
	// Both lists are in the order of sets and keys.
	for len(have) > 0 || len(want) > 0 {
		order := comparePlaced(have, want)
		if order == 0 && have[0].Element == want[0].Element {
			have, want = have[1:], want[1:]
			continue
		}
		if order <= 0 {
			s := p.edit.of(have[0].set)
			s.remove = append(s.remove, have[0].Element)
			p.counts[have[0].set]--
			have = have[1:]
		}
		if order >= 0 {
			s := p.edit.of(want[0].set)
			s.add = append(s.add, want[0].Element)
			p.counts[want[0].set]++
			want = want[1:]
		}
	}
}

// comparePlaced orders the heads of two lists; an empty list comes last.
func comparePlaced(have, want []placed) int {
	switch {
	case len(have) == 0:
		return 1
	case len(want) == 0:
		return -1
	}
	if c := compareSets(have[0].set, want[0].set); c != 0 {
		return c
	}
	return compareKeys(have[0].Key, want[0].Key)
}

// use counts what a frontend refers to, by step.
func (p *Plan) use(f *programmed, step int) {
	if f.Verdict == model.Balance {
		p.targets[f.target()] += step
	}
	for _, e := range f.share(nil) {
		p.shared[sharedKey{e.set, e.Key}] += step
	}
}

// settleShared adds shared elements that are needed for the first time and
// removes those needed no more.
func (p *Plan) settleShared(r *Ruleset) {
	for k, step := range p.shared {
		before := r.shared[k]
		s := p.edit
		switch after := before + step; {
		case before == 0 && after > 0:
			s.of(k.set).add = append(s.of(k.set).add, Element{Key: k.key})
			p.counts[k.set]++
		case before > 0 && after == 0:
			s.of(k.set).remove = append(s.of(k.set).remove, Element{Key: k.key})
			p.counts[k.set]--
		}
	}
}

// settleCIDRs changes the ranges of ClusterIPs.
func (p *Plan) settleCIDRs(r *Ruleset) {
	if p.change.ServiceCIDRs == nil {
		return
	}
	have, want := cidrElements(r.cidrs), cidrElements(*p.change.ServiceCIDRs)
	for id := range want {
		diffElements(p.edit, id, have[id], want[id])
		p.counts[id] += len(want[id]) - len(have[id])
	}
}

// settleObjects finds the chains and sets that come, go, or outgrow their size.
func (p *Plan) settleObjects(r *Ruleset) {
	p.chains, p.sizes = r.chains, r.sizes
	if p.targetsChange(r) {
		p.settleChains(r)
	}
	grown := map[SetID]uint32{}
	for id, step := range p.counts {
		n := r.counts[id] + step
		size, exists := r.sizes[id]
		if exists && !id.layout().interval && n > int(size) { // intervals declare no size
			grown[id] = capacity(n)
		}
	}
	p.grow(r, grown)
}

// targetsChange reports whether a chain comes into use or goes out of it.
func (p *Plan) targetsChange(r *Ruleset) bool {
	for id, step := range p.targets {
		if before := r.targets[id]; (before == 0) != (before+step == 0) {
			return true
		}
	}
	return false
}

// settleChains adds the chains and sets that are needed from now on and removes
// those that are not.
func (p *Plan) settleChains(r *Ruleset) {
	targets := maps.Clone(r.targets)
	for id, step := range p.targets {
		if targets[id] += step; targets[id] == 0 {
			delete(targets, id)
		}
	}
	chains, sets := needed(maps.Keys(targets))
	p.chains, p.sizes = chains, maps.Clone(r.sizes)
	for id := range chains {
		if _, stands := r.chains[id]; !stands {
			p.edit.newChain(id)
		}
	}
	for id := range r.chains {
		if _, stays := chains[id]; !stays {
			p.edit.dropChain(id.Family, id.Name())
		}
	}
	for id := range sets {
		if _, stands := r.sizes[id]; !stands {
			p.sizes[id] = capacity(p.counts[id])
			p.edit.addSets = append(p.edit.addSets, AddSet{id, p.sizes[id]})
		}
	}
	for id := range r.sizes {
		if _, stays := sets[id]; !stays {
			delete(p.sizes, id)
			delete(p.edit.elements, id) // its elements go with it
			p.edit.deleteSets = append(p.edit.deleteSets, DeleteSet{id.Family, id.Name()})
		}
	}
}

// Commit makes the planned state the current one, once the kernel has taken the
// plan's batch.
func (r *Ruleset) Commit(p *Plan) {
	for _, f := range p.set {
		r.frontends[f.Match] = f
	}
	for _, m := range p.change.Gone {
		delete(r.frontends, m)
	}
	if p.change.ServiceCIDRs != nil {
		r.cidrs = *p.change.ServiceCIDRs
	}
	addCounts(r.targets, p.targets)
	addCounts(r.shared, p.shared)
	addCounts(r.counts, p.counts)
	r.chains, r.sizes = p.chains, p.sizes
}

// addCounts adds differences to counts and forgets what is down to none.
func addCounts[K comparable](counts, steps map[K]int) {
	for k, step := range steps {
		if counts[k] += step; counts[k] == 0 {
			delete(counts, k)
		}
	}
}
