package nft

import (
	"maps"
	"slices"
)

// grow rebuilds sets that are too small in the same transaction. The kernel would let the
// size be raised, but the number of buckets of a set with a size is fixed when it is added,
// so that look-ups would become slow.
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
	all, chains := p.elementsOf(r, grown), r.chains()
	for id, size := range grown {
		p.sizes[id] = size
		p.edit.rebuild(id, size, all[id])
		for _, user := range id.readBy(chains, r.cache) {
			if o := (reference{chain: user}); user.Kind < baseChains || r.uses[o]+p.uses[o] > 0 {
				p.edit.rewriteChain(user)
			}
		}
	}
}

// elementsOf returns the elements of the sets after the change, in one pass over all
// frontends.
func (p *Plan) elementsOf(r *Ruleset, sets map[SetID]uint32) map[SetID][]Element {
	out := map[SetID][]Element{}
	var buf []setElement
	next := r.frontends.clone()
	next.change(p.set, p.change.Gone)
	for f := range next.all() {
		buf = f.compile(buf[:0])
		if f.OwnsPool() {
			buf = append(buf, setElement{f.clusterIP().set, Element{Key: f.clusterIP().key}})
		}
		for _, e := range buf {
			if _, wanted := sets[e.set]; wanted {
				out[e.set] = append(out[e.set], e.Element)
			}
		}
	}
	for id, elements := range p.nodeElements(r) {
		if _, wanted := sets[id]; wanted {
			out[id] = elements
		}
	}
	for id, list := range out { // several ports have the same ClusterIP
		if id.Kind == SetClusterIPs {
			out[id] = slices.CompactFunc(list, sameKey)
		}
	}
	shared := maps.Clone(r.shared)
	addCounts(shared, p.shared)
	for k := range shared {
		if _, wanted := sets[k.set]; wanted && k.set.Kind != SetClusterIPs {
			out[k.set] = append(out[k.set], Element{Key: k.key})
		}
	}
	return out
}
