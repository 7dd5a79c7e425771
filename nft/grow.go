package nft

// grow rebuilds sets that are too small in the same transaction. The kernel could raise the
// size, but the number of buckets of a set with a size is fixed when it is added, and
// look-ups would become slow.
func (p *Plan) grow(r *Ruleset) {
	grown := map[SetID]uint32{}
	for id, step := range p.counts {
		n := r.counts[id] + step
		size, exists := r.sizes[id]
		if exists && !id.Layout().Interval && (n > int(size) || r.full[id]) { // intervals declare no size
			grown[id] = capacity(n)
		}
	}
	if len(grown) == 0 {
		return
	}
	all, chains := p.contents(r), r.chains()
	for id, size := range grown {
		p.sizes[id] = size
		p.edit.rebuild(id, size, all.of(id))
		for _, user := range id.readBy(chains, r.cache) {
			if o := (reference{chain: user}); user.Kind < baseChains || r.uses[o]+p.uses[o] > 0 {
				p.edit.rewriteChain(user)
			}
		}
	}
}

// contents returns the elements of the state after the change.
func (p *Plan) contents(r *Ruleset) *contents {
	next := r.frontends.clone()
	next.change(p.set, p.change.Removed)
	return next.contents(p.nodeElements(r))
}
