package nft

import "maps"

// grow replaces a set by a larger one in the same transaction. The kernel would
// let the limit be raised, but the buckets of a set of a declared size are fixed
// when it is made, and look-ups would slow down.
func (p *Plan) grow(r *Ruleset, id SetID, size uint32) {
	p.sizes = maps.Clone(p.sizes)
	p.sizes[id] = size
	p.elements.rebuild(id, size, p.elementsOf(r, id))
	for _, user := range r.users(id) {
		if _, stays := p.chains[user]; stays {
			p.elements.rewriteChain(user)
		}
	}
}

// elementsOf lists what a set will hold after the change.
func (p *Plan) elementsOf(r *Ruleset, id SetID) []Element {
	next := maps.Clone(r.frontends)
	for _, f := range p.set {
		next[f.Match] = f
	}
	for _, m := range p.change.Gone {
		delete(next, m)
	}
	var out []Element
	var buf []placed
	for _, f := range next {
		buf = f.compile(buf[:0])
		for _, e := range buf {
			if e.set == id {
				out = append(out, e.Element)
			}
		}
	}
	for _, k := range sharedIn(id, r.shared, p.shared) {
		out = append(out, Element{Key: k})
	}
	return out
}

// sharedIn lists the shared elements of a set that counts and their differences
// leave needed.
func sharedIn(id SetID, counts, steps map[sharedKey]int) []Key {
	var out []Key
	for k, n := range counts {
		if k.set == id && n+steps[k] > 0 {
			out = append(out, k.key)
		}
	}
	for k, n := range steps {
		if k.set == id && counts[k] == 0 && n > 0 {
			out = append(out, k.key)
		}
	}
	return out
}
