package nft

import (
	"maps"
	"slices"

	"kube-vmap/model"
)

// Elements lists what every set of the state holds, sorted by key, but for what
// packets put there.
func (r *Ruleset) Elements() map[SetID][]Element {
	list := make([]*programmed, 0, len(r.frontends))
	out := r.gather(slices.AppendSeq(list, maps.Values(r.frontends)), nil)
	for id := range r.sizes {
		if _, filled := out[id]; !filled {
			out[id] = nil
		}
	}
	return out
}

// gather makes the elements of all frontends of the state, which are at hand, in
// one pass. What they refer to and share is counted in the ruleset that is given,
// unless that is nil.
func (r *Ruleset) gather(list []*programmed, count *Ruleset) map[SetID][]Element {
	byMatch := func(a, b *programmed) int { return a.Match.Compare(b.Match) }
	if !slices.IsSortedFunc(list, byMatch) {
		slices.SortFunc(list, byMatch)
	}
	g := newGathering(list)
	leading := map[ChainID]int{}
	var own []placed
	var shared []sharedKey
	for _, p := range list {
		own = p.compile(own[:0])
		for i := range own {
			g.put(&own[i])
			if o, ok := own[i].refers(); ok {
				leading[o.chain]++
			}
		}
		shared = p.share(shared[:0])
		for _, k := range shared {
			g.put(&placed{k.set, Element{Key: k.key}})
			if count != nil {
				count.shared[k]++
			}
		}
	}
	if count != nil {
		for chain, n := range leading {
			count.uses.add(nil, object{chain: chain}, n)
		}
	}
	return g.lists(r.ofNode())
}

// gathering collects elements by set. Sets are numbered densely for it: a hundred
// thousand look-ups in a hash table would be most of a first load's work.
type gathering struct{ sets [][]Element }

// number is the place of a set.
func (id SetID) number() int {
	n := (int(id.Family)*int(setKinds) + int(id.Kind)) * 2
	if id.Local {
		n++
	}
	return n*MaxSlots + int(id.Slot)
}

// newGathering makes room for what most of the frontends have.
func newGathering(list []*programmed) *gathering {
	last := SetID{Family: model.Families[len(model.Families)-1], Kind: setKinds, Local: true}
	g := &gathering{make([][]Element, last.number())}
	rooms := make([]int32, len(g.sets))
	for _, p := range list {
		rooms[SetID{Family: p.Match.Family, Kind: Services}.number()]++
		if p.Owner() {
			rooms[SetID{Family: p.Match.Family, Kind: ClusterIPs}.number()]++
		}
		for _, local := range [...]bool{false, true} {
			row := p.row(local)
			if !row.kind.slotted() {
				continue
			}
			slots := rooms[SetID{Family: p.Match.Family, Kind: row.kind, Local: local}.number():]
			for k := range row.list {
				slots[k]++
			}
		}
	}
	for n, room := range rooms {
		if room > 0 {
			g.sets[n] = make([]Element, 0, room)
		}
	}
	return g
}

func (g *gathering) put(e *placed) {
	n := e.set.number()
	g.sets[n] = append(g.sets[n], e.Element)
}

// lists are the elements of each set that has some, and of those given besides;
// sorted, each once.
func (g *gathering) lists(besides map[SetID][]Element) map[SetID][]Element {
	out := besides
	for n, elements := range g.sets {
		if len(elements) > 0 {
			id := setNumbered(n)
			// All come in the order of frontends, which is that of most keys.
			out[id] = slices.CompactFunc(sorted(elements), sameKey)
		}
	}
	return out
}

// setNumbered is the set of a number.
func setNumbered(n int) SetID {
	slot, n := n%MaxSlots, n/MaxSlots
	local, n := n%2 == 1, n/2
	return SetID{
		Family: model.Family(n / int(setKinds)), Kind: SetKind(n % int(setKinds)), Local: local, Slot: uint16(slot),
	}
}
